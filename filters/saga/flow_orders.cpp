// What agents and operators tell a FlowWorker to do.
#include <algorithm>
#include <utility>

#include "filters/saga/flow_worker.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// A human confirms what is recorded already.
bool IsTold(const FlowAction& action, Phase step) {
  return action.kind == FlowAction::Kind::kAbsent && step == Phase::kProvenAbsent;
}

FlowMove MoveOf(const FlowAction& action, const FlowState& state) {
  FlowMove move{.number = state.number,
                .from = state.phase,
                .to = FlowPhase::kBreaking,
                .cause = FlowCause::kHuman,
                .reason = action.reason};
  if (action.kind == FlowAction::Kind::kClose) move.to = FlowPhase::kCommitted;
  const bool is_confirmed = std::ranges::any_of(state.steps, [&](const FlowStep& step) {
    return step.operation == action.operation && IsTold(action, step.phase);
  });
  if (action.kind == FlowAction::Kind::kNotNeeded || is_confirmed) {
    move.not_needed.push_back(action.operation);
  }
  if (action.kind == FlowAction::Kind::kUndo) move.reopened = state;
  return move;
}

// What a human's retry is about: tries that failed or that nobody knows the end of, and the step at
// which the flow stopped.
std::set<std::uint64_t> StuckSteps(const FlowState& state) {
  std::set<std::uint64_t> stuck;
  for (const FlowStep& step : state.steps) {
    if (IsOpen(step.phase) || (NeedsUndo(step) && step.undo != 0)) stuck.insert(step.operation);
  }
  const FlowStep* const next = NextToUndo(state, {});
  if (stuck.empty() && next != nullptr) stuck.insert(next->operation);
  return stuck;
}

// Why a step was not undone by hand, as far as its flow tells: its turn has not come. Empty: it may
// have been. Where the policy goes on past a stuck step, all that is left is stuck.
std::string WhyNotStuck(const FlowState& state, std::uint64_t operation, const Flow* flow) {
  if (IsStopped(state) || (flow != nullptr && flow->continue_on_stuck)) return {};
  const std::set<std::uint64_t> stuck = StuckSteps(state);
  const FlowStep* const next = NextToUndo(state, {});
  const bool is_next = next != nullptr && next->operation == operation;
  if (is_next || stuck.empty() || stuck.contains(operation)) return {};
  return "step " + std::to_string(*stuck.rbegin()) + " is stuck; step " +
         std::to_string(operation) +
         " will be undone by itself; --as not-needed keeps it from that";
}

// What stands in the way, for people; empty: nothing.
std::string ObjectionToAction(const FlowAction& action, const FlowState& state, const Flow* flow) {
  const auto is_in = [&](std::initializer_list<FlowPhase> phases) {
    return std::find(phases.begin(), phases.end(), state.phase) != phases.end();
  };
  const std::string now = "the flow is " + std::string(NameOf(state.phase)) + "; ";
  switch (action.kind) {
    case FlowAction::Kind::kClose:
      if (is_in({FlowPhase::kOpen, FlowPhase::kNeedsHuman})) return {};
      return now + "only an OPEN or a parked one (NEEDS_HUMAN) can be closed";
    case FlowAction::Kind::kCancel:
      return is_in({FlowPhase::kOpen}) ? std::string() : now + "only an OPEN one can be canceled";
    case FlowAction::Kind::kUndo:
      if (is_in({FlowPhase::kCommitted})) return {};
      return now + "undo is for a COMMITTED one; cancel an OPEN one, retry a parked one";
    default:
      break;
  }
  if (!is_in({FlowPhase::kNeedsHuman})) return now + "it does not wait for a human";
  if (action.kind == FlowAction::Kind::kRetry) return {};
  const auto step = std::find_if(state.steps.begin(), state.steps.end(), [&](const FlowStep& s) {
    return s.operation == action.operation;
  });
  if (step == state.steps.end()) {
    return "the flow has no step " + std::to_string(action.operation);
  }
  const bool is_unknown = step->phase == Phase::kUncertain;
  const bool is_absent = step->phase == Phase::kProvenAbsent && step->end == StepEnd::kNone;
  if (action.kind == FlowAction::Kind::kHappened || action.kind == FlowAction::Kind::kAbsent) {
    if (is_unknown || is_absent) return {};
    return "the outcome of that step is known: " + std::string(NameOf(step->phase));
  }
  if (is_unknown) {
    return "the outcome of that step is unknown; say first whether it happened or not "
           "(--as happened, --as absent)";
  }
  if (!NeedsUndo(*step))
    return "that step needs no undo: it is " + std::string(NameOf(step->phase));
  if (action.kind != FlowAction::Kind::kDone) return {};
  return WhyNotStuck(state, action.operation, flow);
}

Transition DoneTransition(const FlowAction& action, const Event& step) {
  Transition transition;
  transition.operation = step.operation;
  transition.from = step.phase;
  transition.attempt = step.attempt;
  transition.to = Phase::kCompensated;
  transition.cause = Cause::kHuman;
  transition.detail = action.reason;
  return transition;
}

HumanWord WordOf(const FlowAction& action) {
  return {.operation = action.operation,
          .happened = action.kind == FlowAction::Kind::kHappened,
          .external_ref = action.external_ref,
          .reason = action.reason,
          .corrects_proof = action.kind == FlowAction::Kind::kHappened};
}

// A parked flow goes on.
std::optional<Transition::FlowEffect> Resuming(const std::string& reason) {
  return Transition::FlowEffect{FlowPhase::kBreaking, FlowCause::kHuman, reason,
                                FlowPhase::kNeedsHuman};
}

// Parked because nobody knew, or because an undo did not come through. One that its deadline
// stopped waits for another word.
bool WaitsForOutcome(const FlowState& state) {
  return state.phase == FlowPhase::kNeedsHuman && state.cause != FlowCause::kDeadline;
}

}  // namespace

Task<Result<FlowState>> FlowWorker::Order(std::string caller, std::string flow, FlowMove move,
                                          Executor& executor) {
  move.number = 0;
  move.caller = std::move(caller);
  move.flow = std::move(flow);
  auto moved = co_await parts_.ledger.MoveFlow(std::move(move), executor);
  if (moved) {
    loop_.Post([this, state = *moved] {
      if (loop_.is_stopping()) return;
      // What is worked on already is newer.
      const Entry* const entry = Find(state.number);
      if (entry == nullptr || !due_.IsTaken(state.number)) Track(state);
      Tick();
      loop_.Wake();
    });
  }
  co_return moved;
}

std::expected<FlowState, std::string> FlowWorker::Act(const FlowAction& action) {
  return loop_.Await<FlowState>([this, action] { return ActNow(action); });
}

std::expected<std::vector<FlowState>, std::string> FlowWorker::List(std::uint64_t after,
                                                                    std::size_t limit) {
  return loop_.Await<std::vector<FlowState>>(
      [this, after, limit] { return ListNow(after, limit); });
}

Task<std::expected<std::vector<FlowState>, std::string>> FlowWorker::ListNow(std::uint64_t after,
                                                                             std::size_t limit) {
  using Answer = std::expected<std::vector<FlowState>, std::string>;
  auto page = co_await parts_.ledger.Flows(after, limit, parts_.executor);
  if (!page) co_return Answer(std::unexpected(std::string(page.error().detail())));
  co_return Answer(std::move(*page));
}

Task<std::expected<FlowState, std::string>> FlowWorker::ActNow(FlowAction action) {
  using Answer = std::expected<FlowState, std::string>;
  auto state = co_await Get(action.number);
  if (!state && action.found) state = std::move(action.found);
  if (!state) {
    co_return Answer(std::unexpected("no flow " + std::to_string(action.number) + " is open"));
  }
  const auto policy = parts_.policy(state->policy_version);
  const Flow* const flow = policy ? policy->FindFlow(state->name) : nullptr;
  if (std::string objection = ObjectionToAction(action, *state, flow); !objection.empty()) {
    co_return Answer(std::unexpected(std::move(objection)));
  }
  const auto is_moved = co_await RecordStep(action);
  if (!is_moved) co_return Answer(std::unexpected(is_moved.error()));
  std::optional<FlowState> moved;
  if (*is_moved) {
    moved = co_await Get(action.number);
    if (!moved) co_return Answer(std::unexpected("the flow has moved on"));
  } else {
    auto done = co_await parts_.ledger.MoveFlow(MoveOf(action, *state), parts_.executor);
    if (!done) co_return Answer(std::unexpected(std::string(done.error().detail())));
    moved = std::move(*done);
  }
  Forget(moved->number);
  Track(*moved);
  if (const auto at = entries_.find(moved->number); at != entries_.end()) {
    if (action.kind == FlowAction::Kind::kRetry) at->second.by_human = StuckSteps(*moved);
  }
  Tick();
  loop_.Wake();
  co_return Answer(*moved);
}

Task<std::expected<bool, std::string>> FlowWorker::RecordStep(FlowAction action) {
  using Answer = std::expected<bool, std::string>;
  if (action.operation == 0 || action.kind == FlowAction::Kind::kNotNeeded) co_return false;
  auto step = co_await Latest(action.operation);
  if (!step) co_return Answer(std::unexpected(UnreadReason(action.operation)));
  if (action.kind != FlowAction::Kind::kDone) {
    if (IsTold(action, step->phase)) co_return false;
    const auto settled =
        co_await parts_.settling.SettleBy(WordOf(action), Resuming(action.reason), parts_.executor);
    if (!settled) co_return Answer(std::unexpected(settled.error()));
    co_return true;
  }
  const auto recorded =
      co_await parts_.ledger.Record(DoneTransition(action, *step), parts_.executor);
  if (!recorded) co_return Answer(std::unexpected(std::string(recorded.error().detail())));
  co_return false;
}

std::expected<Event, std::string> FlowWorker::SettleBy(const HumanWord& word) {
  return loop_.Await<Event>([this, word] { return SettleByNow(word); });
}

std::expected<Event, std::string> FlowWorker::LastOf(std::uint64_t operation) {
  return loop_.Await<Event>([this, operation] { return ReadNow(operation); });
}

Task<std::expected<Event, std::string>> FlowWorker::ReadNow(std::uint64_t operation) {
  using Answer = std::expected<Event, std::string>;
  auto last = co_await parts_.ledger.Read(operation, parts_.executor);
  if (!last) co_return Answer(std::unexpected(std::string(last.error().detail())));
  co_return Answer(std::move(*last));
}

Task<std::expected<Event, std::string>> FlowWorker::SettleByNow(HumanWord word) {
  const auto last = co_await ReadNow(word.operation);
  if (!last) co_return last;
  const auto flow = co_await parts_.ledger.FindOpenFlow(last->caller, last->flow, parts_.executor);
  const bool resumes = flow && *flow && WaitsForOutcome(**flow);
  auto effect = resumes ? Resuming(word.reason) : std::optional<Transition::FlowEffect>();
  auto settled =
      co_await parts_.settling.SettleBy(std::move(word), std::move(effect), parts_.executor);
  if (settled && (settled->is_step || settled->undoes != 0)) {
    Follow(settled->caller, settled->flow);
  }
  co_return settled;
}

}  // namespace recourse
