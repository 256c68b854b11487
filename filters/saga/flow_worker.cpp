#include "filters/saga/flow_worker.h"

#include <fmt/format.h>

#include <algorithm>

#include "filters/flow_effect.h"
#include "filters/saga/flow_rules.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr std::size_t kFlowPage = 256;

bool IsWorkedOn(FlowPhase phase) {
  return phase == FlowPhase::kBreaking || phase == FlowPhase::kUndoing;
}

}  // namespace

FlowWorker::FlowWorker(Parts parts)
    : parts_(std::move(parts)),
      loop_(parts_.executor, parts_.timer, parts_.clock, limits::kFlowTick),
      sender_({parts_.ledger, parts_.upstream, parts_.executor, parts_.clock, parts_.read_secret,
               parts_.tracing, [this] { return loop_.Pause(); }, parts_.keep, &parts_.settling}),
      resender_({parts_.ledger, parts_.upstream, parts_.executor, parts_.clock, parts_.read_secret,
                 parts_.tracing, [this] { return loop_.Pause(); }, parts_.keep}) {}

Task<void> FlowWorker::Run() {
  co_await Load();
  co_await loop_.Run([this] { Tick(); }, [this] { return NextTick(); });
  co_await loop_.Drain();
}

Task<void> FlowWorker::Load() {
  std::uint64_t after = 0;
  bool is_told = false;
  while (!loop_.is_stopping()) {
    const auto page = co_await parts_.ledger.Flows(after, kFlowPage, parts_.executor);
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
      if (Find(now.number) == nullptr || IsWorkedOn(now.phase)) Track(now, limits::kFlowGrace);
    }
  }
}

Task<FlowState> FlowWorker::BrokenByCrash(FlowState state) {
  if (state.phase != FlowPhase::kOpen) co_return state;
  for (const FlowStep& step : state.steps) {
    if (step.phase != Phase::kUncertain) continue;
    const auto event = co_await Latest(step.operation);
    const auto policy = event ? parts_.policy(event->policy_version) : nullptr;
    const Tool* const tool = policy ? policy->FindTool(event->tool) : nullptr;
    const auto effect = tool ? FlowEffectOf(*policy, *tool, event->phase) : std::nullopt;
    if (!effect || event->phase != Phase::kUncertain) continue;
    auto moved = co_await Move({.number = state.number,
                                .from = FlowPhase::kOpen,
                                .to = effect->to,
                                .cause = effect->cause,
                                .reason = effect->reason});
    if (moved) co_return std::move(*moved);
  }
  co_return state;
}

// Takes a flow in, with the time at which it has to be looked at. A deadline counts from the wall
// clock of its first step, so that time without a process counts too, but after a start never ends
// a flow before its agent had a chance to come back.
void FlowWorker::Track(const FlowState& state, Millis grace) {
  const MonoTime now = parts_.clock.Now();
  std::optional<MonoTime> due;
  if (IsWorkedOn(state.phase)) {
    due = now;
  } else if (state.phase == FlowPhase::kOpen && state.has_deadline) {
    const auto policy = parts_.policy(state.policy_version);
    const Millis elapsed(
        std::max<std::int64_t>(0, ToUnixMillis(parts_.clock.WallNow()) - state.began_ms));
    const auto left = policy ? FlowTimeLeft(*policy, state, elapsed) : std::nullopt;
    due = now + std::max(left.value_or(Millis(0)), grace);  // unknown: somebody has to look at it
  }
  if (!due) {
    Forget(state.number);
    return;
  }
  Entry& entry = entries_[state.number];
  entry.id = state.id;
  entry.caller = state.caller;
  if (state.phase == FlowPhase::kBreaking && entry.settle_until == MonoTime{}) {
    entry.settle_until = now + limits::kFlowSettleFor;
  }
  due_.Set(state.number, *due);
}

void FlowWorker::Forget(std::uint64_t number) {
  due_.Forget(number);
  entries_.erase(number);
}

FlowWorker::Entry* FlowWorker::Find(std::uint64_t number) {
  const auto at = entries_.find(number);
  return at == entries_.end() ? nullptr : &at->second;
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
      const auto known = self.entries_.find((*state)->number);
      const bool is_new = known == self.entries_.end();
      if (is_new || (IsWorkedOn((*state)->phase) && !self.due_.IsTaken(known->first))) {
        self.Track(**state);
      }
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
    const std::optional<std::uint64_t> number = due_.Take(now);
    if (!number) return;
    const std::uint64_t work = ++works_;
    entries_.at(*number).work = work;
    loop_.Spawn(Work(*number, work), [this, taken = *number, work] {
      if (IsMine(taken, work)) due_.PutBack(taken);
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
  const std::optional<MonoTime> next = due_.next();
  return next && loop_.active() >= limits::kUndosAtOnceMax ? MonoTime::max() : next;
}

bool FlowWorker::IsMine(std::uint64_t number, std::uint64_t work) {
  const Entry* const entry = Find(number);
  return entry != nullptr && entry->work == work;
}

Task<void> FlowWorker::Work(std::uint64_t number, std::uint64_t work) {
  // Looked at again soon if nothing below says when.
  if (Find(number) != nullptr) due_.Set(number, parts_.clock.Now() + limits::kUndoBackoffFirst);
  const auto page = co_await parts_.ledger.Flows(number - 1, 1, parts_.executor);
  if (!page || !IsMine(number, work)) co_return;
  if (page->empty() || page->front().number != number) {
    Forget(number);
    co_return;
  }
  std::optional<FlowState> state = page->front();
  while (state && !loop_.is_stopping() && IsMine(number, work)) {
    state = co_await Advance(std::move(*state));
  }
}

Task<std::optional<FlowState>> FlowWorker::Advance(FlowState state) {
  switch (state.phase) {
    case FlowPhase::kOpen:
      co_return co_await AtDeadline(std::move(state));
    case FlowPhase::kBreaking:
      co_return co_await Settle(std::move(state));
    case FlowPhase::kUndoing:
      co_return co_await UndoNext(std::move(state));
    default:
      Forget(state.number);
      co_return std::nullopt;
  }
}

Task<std::optional<FlowState>> FlowWorker::AtDeadline(FlowState state) {
  const auto policy = parts_.policy(state.policy_version);
  const Flow* const flow = policy ? policy->FindFlow(state.name) : nullptr;
  if (flow == nullptr || !flow->deadline) {
    co_return co_await Move({.number = state.number,
                             .from = FlowPhase::kOpen,
                             .to = FlowPhase::kNeedsHuman,
                             .cause = FlowCause::kDeadline,
                             .reason = "the policy that gave it its deadline is lost"});
  }
  bool has_ended = !flow->ends_with;
  for (const FlowStep& step : state.steps) {
    if (has_ended || step.phase != Phase::kSucceeded) continue;
    const auto event = co_await Latest(step.operation);
    has_ended = event && event->tool == policy->tools[*flow->ends_with].name;
  }
  co_return co_await Move(MoveAtDeadline(*policy, state, has_ended));
}

Task<std::optional<FlowState>> FlowWorker::Park(const FlowState& state, std::string reason) {
  co_return co_await Move({.number = state.number,
                           .from = state.phase,
                           .to = FlowPhase::kNeedsHuman,
                           .cause = FlowCause::kStuck,
                           .reason = std::move(reason)});
}

// nullopt: somebody else moved the flow, or the ledger refuses; it is looked at again.
Task<std::optional<FlowState>> FlowWorker::Move(FlowMove move) {
  auto moved = co_await parts_.ledger.MoveFlow(std::move(move), parts_.executor);
  if (!moved) co_return std::nullopt;
  Tell(*moved);
  co_return std::move(*moved);
}

void FlowWorker::Tell(const FlowState& state) {
  if (state.phase != FlowPhase::kUndone && state.phase != FlowPhase::kNeedsHuman) return;
  const auto undone =
      std::count_if(state.steps.begin(), state.steps.end(),
                    [](const FlowStep& step) { return step.phase == Phase::kCompensated; });
  const bool is_stopped = IsStopped(state);
  Log(is_stopped || state.phase == FlowPhase::kUndone ? LogLevel::kInfo : LogLevel::kError,
      is_stopped                          ? "a flow stopped unfinished"
      : state.phase == FlowPhase::kUndone ? "a flow was undone"
                                          : "a flow needs a human",
      {{"flow", state.id},
       {"number", std::to_string(state.number)},
       {"caller", state.caller},
       {"undone", std::to_string(undone)},
       {"reason", state.reason}});
  if (parts_.tell) parts_.tell({state, static_cast<std::uint64_t>(undone)});
}

Task<std::optional<FlowState>> FlowWorker::Get(std::uint64_t number) {
  auto page = co_await parts_.ledger.Flows(number - 1, 1, parts_.executor);
  if (!page || page->empty() || page->front().number != number) co_return std::nullopt;
  co_return std::move(page->front());
}

// A step that runs is not waited for here.
Task<std::optional<Event>> FlowWorker::Latest(std::uint64_t operation) {
  auto event = co_await parts_.ledger.Join(operation, parts_.clock.Now(), parts_.executor);
  if (!event || !*event) co_return std::nullopt;
  co_return std::move(**event);
}

Task<std::optional<Event>> FlowWorker::Look(std::uint64_t number, std::uint64_t operation) {
  auto event = co_await parts_.ledger.Join(operation, parts_.clock.Now(), parts_.executor);
  Entry* const entry = Find(number);
  if (entry != nullptr && event) entry->unread_since.reset();
  if (entry != nullptr && !event && !entry->unread_since) {
    entry->unread_since = parts_.clock.Now();
  }
  if (!event || !*event) co_return std::nullopt;
  co_return std::move(**event);
}

bool FlowWorker::IsLostToReading(std::uint64_t number) {
  const Entry* const entry = Find(number);
  return entry != nullptr && entry->unread_since &&
         parts_.clock.Now() - *entry->unread_since >= limits::kFlowSettleFor;
}

std::string FlowWorker::UnreadReason(std::uint64_t operation) {
  return fmt::format(
      "step {} cannot be read: a row is damaged (`recourse ledger verify` says which), or its call "
      "was made anew under another trace while an earlier version ran; look whether its effect is "
      "still there, then close the flow",
      operation);
}

}  // namespace recourse
