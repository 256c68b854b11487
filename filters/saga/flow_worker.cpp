#include "filters/saga/flow_worker.h"

#include <algorithm>
#include <utility>

#include "filters/flow_effect.h"
#include "filters/saga/flow_rules.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr std::size_t kFlowPage = 256;

}  // namespace

FlowWorker::FlowWorker(Parts parts)
    : parts_(std::move(parts)),
      loop_(parts_.executor, parts_.timer, parts_.clock, limits::kFlowTick),
      table_(parts_.clock, parts_.policy),
      records_(parts_, table_),
      share_(table_, parts_.clock, [this] { TickSoon(); }),
      settler_({parts_, table_, records_, share_},
               {parts_.ledger, parts_.upstream, parts_.executor, parts_.clock, parts_.read_secret,
                parts_.tracing, [this] { return loop_.Pause(); }, parts_.keep}),
      undoer_({parts_, table_, records_, share_},
              {parts_.ledger, parts_.upstream, parts_.executor, parts_.clock, parts_.read_secret,
               parts_.tracing, [this] { return loop_.Pause(); }, parts_.keep, &parts_.settling}),
      operators_(
          {parts_, table_, records_, share_}, loop_,
          {.take_up = [this](const FlowState& moved,
                             StepKeys stuck) { TakeUp(moved, std::move(stuck)); },
           .follow = [this](std::string caller,
                            std::string flow) { Follow(std::move(caller), std::move(flow)); }}) {}

Task<void> FlowWorker::Run() {
  co_await Load();
  co_await loop_.Run([this] { Tick(); }, [this] { return NextTick(); });
  co_await loop_.Drain();
}

void FlowWorker::LoadMore() {
  loop_.Post([this] {
    loop_.Spawn(Load(), [this] {
      Tick();
      loop_.Wake();
    });
  });
}

Task<void> FlowWorker::Load() {
  std::uint64_t after = 0;
  bool is_told = false;
  while (!loop_.is_stopping()) {
    const auto page = co_await parts_.ledger.OwnFlows(after, kFlowPage, parts_.executor);
    if (!page) {
      if (!std::exchange(is_told, true)) {
        Log(LogLevel::kError, "flows cannot be read and are not undone; it is tried again",
            {{"reason", page.error().detail()}});
      }
      co_await parts_.timer.SleepUntil(parts_.clock.Now() + limits::kFlowTick);
      continue;
    }
    if (page->empty()) co_return;
    for (const FlowState& state : *page) {
      after = state.number;
      const FlowState now = co_await BrokenByCrash(state);
      // What is known of it already is newer than the page.
      const FlowEntry* const known = table_.Find(now.number);
      if (known == nullptr || (IsWorkedOn(now.phase) && !known->is_worked_on)) {
        table_.Track(now, limits::kFlowGrace);
      }
    }
  }
}

Task<FlowState> FlowWorker::BrokenByCrash(FlowState state) {
  if (state.phase != FlowPhase::kOpen) co_return state;
  for (const FlowStep& step : state.steps) {
    if (step.phase != Phase::kUncertain) continue;
    const auto event = co_await records_.Latest(step.operation);
    const auto policy = event ? parts_.policy(event->policy_version) : nullptr;
    const Tool* const tool = policy ? policy->FindTool(event->tool) : nullptr;
    const auto effect = tool ? FlowEffectOf(*policy, *tool, event->phase) : std::nullopt;
    if (!effect || event->phase != Phase::kUncertain) continue;
    auto moved =
        co_await records_.Move(FlowMove::Of(state, effect->to, effect->cause, effect->reason));
    if (moved) co_return std::move(*moved);
  }
  co_return state;
}

void FlowWorker::Watch(const Event& step) {
  if (step.is_step) Follow(step.caller, step.flow);
}

void FlowWorker::Follow(std::string caller, std::string flow) {
  loop_.Post([this, caller = std::move(caller), flow = std::move(flow)]() mutable {
    if (loop_.is_stopping()) return;
    loop_.Spawn([](FlowWorker& self, std::string who, std::string id) -> Task<void> {
      auto state = co_await self.parts_.ledger.FindOpenFlow(who, id, self.parts_.executor);
      while (!state && !self.loop_.is_stopping()) {  // or nobody would undo it before a restart
        co_await self.parts_.timer.SleepUntil(self.parts_.clock.Now() + limits::kFlowTick);
        state = co_await self.parts_.ledger.FindOpenFlow(who, id, self.parts_.executor);
      }
      if (!state || !*state) co_return;
      FlowTable& table = self.table_;
      const std::uint64_t number = (*state)->number;
      const bool is_new = table.Find(number) == nullptr;
      if (is_new || (IsWorkedOn((*state)->phase) && !table.IsTaken(number))) table.Track(**state);
      self.Tick();
      self.loop_.Wake();
    }(*this, std::move(caller), std::move(flow)));
  });
}

void FlowWorker::Tick() {
  if (loop_.is_stopping()) return;
  const MonoTime now = parts_.clock.Now();
  for (std::size_t looked = 0;
       looked < limits::kFlowsScanMax && loop_.active() < limits::kUndosAtOnceMax; ++looked) {
    const std::optional<FlowTable::Work> work = table_.Take(now);
    if (!work) return;
    loop_.Spawn(Work(*work), [this, ended = *work] {
      table_.End(ended);
      TickSoon();
    });
  }
}

// A place or a turn became free: whoever waits for it does not wait for the clock. Posted, because
// what it starts may end at once.
void FlowWorker::TickSoon() {
  if (std::exchange(is_tick_posted_, true)) return;
  loop_.Post([this] {
    is_tick_posted_ = false;
    Tick();
    loop_.Wake();
  });
}

std::optional<MonoTime> FlowWorker::NextTick() const {
  const std::optional<MonoTime> next = table_.next();
  return next && loop_.active() >= limits::kUndosAtOnceMax ? MonoTime::max() : next;
}

Task<void> FlowWorker::Work(FlowTable::Work work) {
  // Looked at again soon if nothing below says when.
  if (table_.Find(work.number) != nullptr) {
    table_.SetDue(work.number, parts_.clock.Now() + limits::kUndoBackoffFirst);
  }
  const auto page = co_await parts_.ledger.Flows(work.number - 1, 1, parts_.executor);
  if (!page || !table_.IsMine(work)) co_return;
  const bool is_there = !page->empty() && page->front().number == work.number;
  if (!is_there || page->front().is_others) {
    table_.Forget(work.number);
    co_return;
  }
  if (!table_.IsOf(page->front())) {
    table_.Forget(work.number);
    table_.Track(page->front());
    co_return;
  }
  if (AwaitsPolicy(page->front())) co_return;
  std::optional<FlowState> state = page->front();
  while (state && !loop_.is_stopping() && table_.IsMine(work)) {
    state = co_await Advance(std::move(*state));
  }
}

bool FlowWorker::AwaitsPolicy(const FlowState& state) const {
  return parts_.is_awaited && (parts_.is_awaited(state.policy_version) ||
                               std::ranges::any_of(state.other_versions, parts_.is_awaited));
}

Task<std::optional<FlowState>> FlowWorker::Advance(FlowState state) {
  if (FlowEntry* const entry = table_.Find(state.number)) {
    entry->is_worked_on = IsWorkedOn(state.phase);
  }
  switch (state.phase) {
    case FlowPhase::kOpen:
      co_return co_await AtDeadline(std::move(state));
    case FlowPhase::kBreaking:
      co_return co_await settler_.Settle(std::move(state));
    case FlowPhase::kUndoing:
      co_return co_await undoer_.UndoNext(std::move(state));
    default:
      table_.Forget(state.number);
      co_return std::nullopt;
  }
}

Task<std::optional<FlowState>> FlowWorker::AtDeadline(FlowState state) {
  const auto policy = parts_.policy(state.policy_version);
  const Flow* const flow = policy ? policy->FindFlow(state.name) : nullptr;
  if (flow == nullptr || !flow->deadline) {
    co_return co_await records_.Move(FlowMove::Of(state, FlowPhase::kNeedsHuman,
                                                  FlowCause::kDeadline,
                                                  "the policy that gave it its deadline is lost"));
  }
  bool has_ended = !flow->ends_with, is_awaited = false;
  std::vector<NamedStep> seen;
  for (const FlowStep& step : state.steps) {
    if (!IsOpen(step.phase) && (has_ended || step.phase != Phase::kSucceeded)) continue;
    const Result<Event> event = co_await parts_.ledger.Read(step.operation, parts_.executor);
    seen.push_back({step.operation, {}, step.phase});
    if (event) seen.back().key = event->key;
    if (event && event->phase == Phase::kSucceeded) {
      has_ended = has_ended || event->tool == policy->tools[*flow->ends_with].name;
    }
    const Millis wait =
        event ? AwaitedAtDeadline(*policy, state, *event) : Millis(limits::kFlowSettleFor);
    is_awaited = is_awaited || Overdue(state.number) < wait;
  }
  if (is_awaited) co_return std::nullopt;
  FlowMove move = MoveAtDeadline(*policy, state, has_ended);
  move.seen = std::move(seen);
  co_return co_await records_.Move(std::move(move));
}

Millis FlowWorker::Overdue(std::uint64_t number) {
  FlowEntry* const entry = table_.Find(number);
  const MonoTime now = parts_.clock.Now();
  if (entry == nullptr) return Millis::max();  // an operator has ended it meanwhile
  if (!entry->overdue_since) entry->overdue_since = now;
  return std::chrono::duration_cast<Millis>(now - *entry->overdue_since);
}

Task<Result<FlowState>> FlowWorker::Order(std::string caller, std::string flow, FlowMove move,
                                          Executor& executor) {
  move.number = 0;
  move.caller = std::move(caller);
  move.flow = std::move(flow);
  move.told_by = MonoTime{};
  auto moved = co_await parts_.ledger.MoveFlow(std::move(move), executor);
  if (moved) {
    loop_.Post([this, state = *moved] {
      if (loop_.is_stopping()) return;
      // What is worked on already is newer.
      if (!table_.IsTaken(state.number)) table_.Track(state);
      Tick();
      loop_.Wake();
    });
  }
  co_return moved;
}

void FlowWorker::TakeUp(const FlowState& moved, StepKeys stuck) {
  table_.Forget(moved.number);
  table_.Track(moved);
  if (FlowEntry* const entry = table_.Find(moved.number)) entry->by_human = std::move(stuck);
  Tick();
  loop_.Wake();
}

}  // namespace recourse
