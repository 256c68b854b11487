#include "tests/sim/simulation.h"

#include <fmt/format.h>

#include <array>

#include "filters/ledger/queries/log_queries.h"
#include "filters/ledger/rows/row_codec.h"
#include "tests/sim/sim_policy.h"

namespace recourse {
namespace {

constexpr Millis kHorizon(60'000);
constexpr Millis kQuietMax(1'200'000);
// Nothing that was sent earlier is on its way any more, so a human can look at the backend.
constexpr Millis kSurely(SimBackend::kLatestMs + 2'000);

SimScale ScaleOf(Dice& dice) {
  SimScale scale;
  scale.is_crowded = dice.Percent(12);
  if (!scale.is_crowded) return scale;
  scale.hot_entries_max = 8;
  scale.index_fault_percent = dice.Percent(50) ? 20 : 0;
  if (dice.Percent(60)) {
    scale.rule = {.retention = Millis(4'000) + dice.Time(20'000), .tombstones = Millis(600'000)};
  }
  return scale;
}

}  // namespace

Simulation::Simulation(std::uint64_t seed)
    : dice_(seed),
      scale_dice_(seed ^ 0x5ca1e),
      has_faults_(dice_.Percent(90)),
      backend_(loop_, dice_, has_faults_ ? 5 + dice_.Below(45) : 0),
      disk_(scale_dice_, ScaleOf(scale_dice_)) {
  const SimPolicy& chosen = SimPolicies()[dice_.Below(static_cast<unsigned>(SimPolicies().size()))];
  policy_ = chosen.policy;
  other_policy_ = chosen.changed;
  run_.policy = policy_;
  run_.begin = loop_.now();
  run_.begin_ms = ToUnixMillis(loop_.clock().WallNow());
  run_.in_force.emplace_back(run_.begin_ms, policy_->digest);
  run_.goes_on = chosen.goes_on;
  run_.fault_percent = has_faults_ ? 1 : 0;
}

Simulation::~Simulation() {
  if (life_) Bury();
  loop_.RunAll();
}

void Simulation::Live() {
  life_ = std::make_unique<Life>(loop_, dice_, backend_, disk_, policy_);
  ++run_.lives;
  if (!is_ending_ && has_faults_ && dice_.Percent(60)) {
    life_->Light(static_cast<int>(1 + dice_.Below(120)));
  }
}

void Simulation::Bury() {
  life_->Bury();
  graves_.push_back(std::move(life_));
}

void Simulation::Step(Millis time) {
  loop_.RunFor(time);
  if (life_ && life_->is_dead()) Bury();
  if (!life_) {
    loop_.RunFor(dice_.Time(8'000));
    Live();
  }
}

SimRun Simulation::Run() {
  Live();
  const unsigned agents = 1 + dice_.Below(3);
  for (unsigned i = 0; i < agents; ++i) {
    agents_.push_back(std::make_unique<Agent>());
    agents_.back()->trace = std::string(31, 'a') + std::to_string(i + 1);
    agents_.back()->is_memo = dice_.Percent(25);
    ++speaking_;
    loop_.Start(Speak(*agents_.back(), i));
  }
  if (disk_.scale().is_crowded) loop_.Start(Crowd());
  const MonoTime horizon = loop_.now() + kHorizon;
  while (loop_.now() < horizon && (speaking_ > 0 || !IsQuiet())) {
    Step(dice_.Time(2'000));
    if (has_faults_ && dice_.Percent(2)) life_->Kill();
    if (dice_.Percent(8)) Operate();
    // In a crowd nobody is quick to decide.
    if (dice_.Percent(disk_.scale().is_crowded ? 10 : 40)) loop_.Start(Judge());
    if (dice_.Percent(2)) ChangePolicy();
  }
  is_ending_ = true;
  backend_.StopFailing();
  disk_.StopFailing();
  life_->Light(0);
  const bool resolves = dice_.Percent(70);
  const MonoTime end = loop_.now() + kQuietMax;
  do {
    Step(Millis(2'000));
    if (resolves) Operate();
  } while (loop_.now() < end && (speaking_ > 0 || !IsQuiet()));
  run_.is_quiet = speaking_ == 0 && IsQuiet();
  Step(kSurely);
  Collect(run_);
  return run_;
}

// Nothing is to be done any more that nobody has to decide.
bool Simulation::IsQuiet() {
  const auto flows = life_->ledger().NewestFlows(100);
  if (!flows || life_->ledger().Stats().approvals_pending > 0) return false;
  for (const FlowState& state : *flows) {
    if (state.phase == FlowPhase::kBreaking || state.phase == FlowPhase::kUndoing) return false;
    if (state.phase == FlowPhase::kOpen && state.has_deadline) return false;
    for (const FlowStep& step : state.steps) {
      if (step.phase == Phase::kDispatching) return false;
    }
  }
  return true;
}

// --- agents -----------------------------------------------------------------------------------

Task<void> Simulation::Sleep(Millis time) { co_await loop_.timer().SleepUntil(loop_.now() + time); }

Task<bool> Simulation::Alive() {
  for (int i = 0; i < 600; ++i) {
    if (life_ && !life_->is_dead()) co_return true;
    co_await Sleep(Millis(100));
  }
  co_return false;
}

Task<void> Simulation::Speak(Agent& agent, unsigned index) {
  static constexpr std::array kKinds = {"orders", "charges", "notes",
                                        "orders", "wires",   "shipments"};
  co_await Sleep(dice_.Time(3'000));
  const unsigned steps = 1 + dice_.Below(4);
  for (unsigned i = 0; i < steps && !agent.is_fenced; ++i) {
    std::string kind = agent.is_memo ? "messages" : kKinds[dice_.Below(i + 1 < steps ? 5 : 6)];
    const std::string ref = "a" + std::to_string(index) + "-" + std::to_string(i);
    ++agent.running;
    loop_.Start(Write(agent, std::move(kind), ref));
    // Some agents do not wait for the one call before they make the next.
    while (agent.running > (dice_.Percent(25) ? 1 : 0)) co_await Sleep(Millis(200));
    co_await Sleep(dice_.Time(dice_.Percent(10) ? 15'000 : 500));
  }
  if (dice_.Percent(35)) co_await End(agent);
  while (agent.running > 0) co_await Sleep(Millis(200));
  --speaking_;
}

Task<void> Simulation::Write(Agent& agent, std::string kind, std::string ref) {
  CallSpec call;
  call.host = kind == "charges" ? "bank.test" : "shop.test";
  call.target = "/" + kind + "/" + ref;
  call.body = "{}";
  call.trace = agent.trace;
  if (dice_.Percent(10)) {  // the same call twice at once
    ++agent.running;
    loop_.Start([](Simulation& self, Agent& who, CallSpec twin, std::string name) -> Task<void> {
      (void)co_await self.Attempt(who, twin, name, true);
      --who.running;
    }(*this, agent, call, ref));
  }
  for (int tries = 0; tries < 5 && !agent.is_fenced; ++tries) {
    if (co_await Attempt(agent, call, ref, true)) break;
    co_await Sleep(Millis(200) + dice_.Time(4'000));
  }
  --agent.running;
}

// Writes of many traces, each made once: keys, some of which stay open for long.
Task<void> Simulation::Crowd() {
  ++speaking_;
  const unsigned writes = 15 + scale_dice_.Below(30);
  for (unsigned i = 0; i < writes; ++i) {
    CallSpec call;
    const std::string ref = "m" + std::to_string(i);
    const bool is_gated = scale_dice_.Percent(8);
    call.host = "shop.test";
    call.target = (is_gated ? "/permits/" : "/marks/") + ref;
    call.body = "{}";
    call.trace = std::string(28, 'b') + fmt::format("{:04}", i);
    ++crowd_.running;
    loop_.Start([](Simulation& self, CallSpec made, std::string name) -> Task<void> {
      (void)co_await self.Attempt(self.crowd_, made, name, true);
      --self.crowd_.running;
    }(*this, std::move(call), ref));
    co_await Sleep(scale_dice_.Time(600));
  }
  while (crowd_.running > 0) co_await Sleep(Millis(200));
  --speaking_;
}

// True: there is nothing to make again.
Task<bool> Simulation::Attempt(Agent& agent, const CallSpec& call, const std::string& ref,
                               bool is_write) {
  if (!co_await Alive()) co_return true;
  const auto told = std::make_shared<Told>();
  Life* const life = life_.get();
  life->Serve(call, told);
  while (!told->done && life == life_.get() && !life->is_dead()) co_await Sleep(Millis(100));
  if (!told->done) co_return false;  // its connection is lost
  if (is_write) run_.told.push_back({ref, call.trace, *told});
  if (told->error == ErrorCode::kFlowClosed || told->error == ErrorCode::kCompensated) {
    agent.is_fenced = true;
  }
  if (!is_write && told->status == 200) run_.closed.insert(call.trace);
  if (!is_write && told->status == 202) run_.canceled.insert(call.trace);
  if (is_write && told->status == 202) co_return false;  // a human is asked
  co_return told->status < 500 && told->status != 429 && told->status != 409;
}

Task<void> Simulation::End(Agent& agent) {
  CallSpec call;
  call.host = "shop.test";
  call.target = "/notes/end";
  call.trace = agent.trace;
  call.headers.emplace_back("Recourse-Flow", dice_.Percent(60) ? "cancel" : "close");
  (void)co_await Attempt(agent, call, "end", false);
}

// --- the operator -----------------------------------------------------------------------------

std::string Simulation::RefOf(std::uint64_t operation) {
  const auto event = FindEvent(disk_.every_row(), nullptr, operation);
  if (!event || !*event) return {};
  return (*event)->path.substr((*event)->path.rfind('/') + 1);
}

bool Simulation::IsUndoneInTruth(std::uint64_t operation) {
  const auto& effects = backend_.EffectsOf(RefOf(operation));
  return !effects.empty() && effects.front().undone > 0;
}

void Simulation::Act(FlowAction::Kind kind, const FlowState& state, std::uint64_t operation) {
  FlowAction action{.kind = kind,
                    .number = state.number,
                    .operation = operation,
                    .reason = "looked at it",
                    .found = state};
  ++run_.words;
  if (kind == FlowAction::Kind::kRetry) ++run_.retries[state.number];
  if (kind == FlowAction::Kind::kUndo) run_.reopened.insert(state.number);
  life_->Act(action);
  loop_.RunFor(Millis(50));
}

// Looks at one flow. What it says of a step is true.
void Simulation::Operate() {
  if (!life_ || life_->is_dead()) return;
  const auto flows = life_->ledger().NewestFlows(100);
  if (!flows || flows->empty()) return;
  const FlowState& state = (*flows)[dice_.Below(static_cast<unsigned>(flows->size()))];
  const std::int64_t age = ToUnixMillis(loop_.clock().WallNow()) - state.changed_ms;
  using Kind = FlowAction::Kind;
  if (state.phase == FlowPhase::kNeedsHuman) {
    if (Millis(age) > kSurely) Resolve(state);
  } else if (!is_ending_ && state.phase == FlowPhase::kOpen && dice_.Percent(20)) {
    Act(dice_.Percent(50) ? Kind::kCancel : Kind::kClose, state);
  } else if (!is_ending_ && state.phase == FlowPhase::kCommitted && dice_.Percent(20)) {
    Act(Kind::kUndo, state);
  } else if (dice_.Percent(10)) {
    Act(Kind::kNotNeeded, state, state.steps.empty() ? 0 : state.steps.front().operation);
  }
}

// --- the approvers ----------------------------------------------------------------------------

// Somebody looks at one of the calls that wait. Not everybody may decide, and not every word is
// about the request that waits.
Task<void> Simulation::Judge() {
  Life* const life = life_.get();
  if (life == nullptr || life->is_dead()) co_return;
  const auto claims = co_await life->ledger().Claims(0, 100, loop_.executor());
  if (!claims || claims->empty()) co_return;
  const Event& event = (*claims)[dice_.Below(static_cast<unsigned>(claims->size()))].event;
  using Kind = ApprovalOrder::Kind;
  ApprovalOrder order{.kind = dice_.Percent(75) ? Kind::kApprove : Kind::kReject,
                      .operation = event.operation,
                      .by = {dice_.Percent(50) ? "ann" : "bob", {"team"}},
                      .digest = event.approval->digest,
                      .reason = "looked at it"};
  switch (dice_.Below(12)) {
    case 0:
      order.by.name = event.caller;
      break;
    case 1:
      order.by.groups = {"others"};
      break;
    case 2:
      order.digest = Sha256("another request");
      break;
    case 3:
      if (order.kind == Kind::kApprove) order.body = R"({"edited":true})";
      break;
    default:
      break;
  }
  co_await Sleep(dice_.Time(300));
  if (!life->is_dead()) co_await life->Decide(std::move(order));
}

void Simulation::ChangePolicy() {
  std::swap(policy_, other_policy_);
  run_.in_force.emplace_back(ToUnixMillis(loop_.clock().WallNow()), policy_->digest);
  if (life_) life_->Obey(policy_);
}

void Simulation::Resolve(const FlowState& state) {
  using Kind = FlowAction::Kind;
  const FlowStep* stuck = nullptr;
  for (const FlowStep& step : state.steps) {
    if (step.phase == Phase::kUncertain) {
      const bool happened = !backend_.EffectsOf(RefOf(step.operation)).empty();
      return Act(happened ? Kind::kHappened : Kind::kAbsent, state, step.operation);
    }
    if (!NeedsUndo(step)) continue;
    if (IsUndoneInTruth(step.operation)) return Act(Kind::kDone, state, step.operation);
    if (stuck == nullptr || step.success > stuck->success) stuck = &step;
  }
  if (stuck == nullptr || dice_.Percent(40)) return Act(Kind::kRetry, state);
  switch (dice_.Below(3)) {
    case 0:
      return Act(Kind::kNotNeeded, state, stuck->operation);
    case 1:
      backend_.UndoByHand(RefOf(stuck->operation));
      return Act(Kind::kDone, state, stuck->operation);
    default:
      if (dice_.Percent(20)) Act(Kind::kClose, state);
  }
}

// --- the end ----------------------------------------------------------------------------------

void Simulation::Collect(SimRun& run) {
  Ledger& ledger = life_->ledger();
  for (std::uint64_t after = 0;;) {
    const auto page = ListEvents(disk_.every_row(), nullptr, {.after = after, .limit = 1'000});
    if (!page || page->events.empty()) break;
    after = page->events.back().id;
    for (const Event& event : page->events) {
      if (event.cause == Cause::kCarried) {
        ++run.carried;  // says nothing new
      } else {
        run.events.push_back(event);
      }
    }
    if (!page->more) break;
  }
  run.lets_rows_go = disk_.scale().rule.has_value();
  run.checkpoints = disk_.checkpoints();
  run.with_older_claims = disk_.with_older_claims();
  (void)disk_.every_row().NewReader()->Scan(
      1, 1'000'000, [&](std::uint64_t, std::string_view bytes) {
        const auto row = ParseRow(bytes);
        FlowState state;
        if (row && row->head.kind == RowKind::kFlow && DecodeFlow(*row, state)) {
          run.moves.push_back(std::move(state));
        }
        return true;
      });
  if (auto flows = ledger.NewestFlows(1'000)) run.flows = std::move(*flows);
  if (const VerifyReport report = ledger.Verify(); !report.ok) {
    run.problems.push_back("the log: " + report.problem);
  }
  for (const auto* seen : {&backend_.problems(), &disk_.problems()}) {
    run.problems.insert(run.problems.end(), seen->begin(), seen->end());
  }
}

}  // namespace recourse
