// What agents and operators tell a FlowRunner to do.
#include <algorithm>
#include <future>
#include <utility>

#include "filters/saga/flow_runner.h"
#include "proxy/base/executor.h"
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

// What stands in the way, for people; empty: nothing.
std::string ObjectionToAction(const FlowAction& action, const FlowState& state) {
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
  return {};
}

std::optional<Transition> TransitionOf(const FlowAction& action, const Event& step) {
  Transition transition;
  transition.operation = step.operation;
  transition.from = step.phase;
  transition.attempt = step.attempt;
  transition.cause = Cause::kHuman;
  transition.detail = action.reason;
  switch (action.kind) {
    case FlowAction::Kind::kDone:
      transition.to = Phase::kCompensated;
      return transition;
    case FlowAction::Kind::kHappened:
      transition.to = Phase::kAnswerLost;
      return transition;
    case FlowAction::Kind::kAbsent:
      transition.to = Phase::kProvenAbsent;
      return transition;
    default:
      return std::nullopt;
  }
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

}  // namespace

Task<Result<FlowState>> FlowRunner::Order(std::string caller, std::string flow, FlowMove move,
                                          Executor& executor) {
  move.number = 0;
  move.caller = std::move(caller);
  move.flow = std::move(flow);
  auto moved = co_await parts_.ledger.MoveFlow(std::move(move), executor);
  if (moved) {
    Post([this, state = *moved] {
      if (is_stopping_) return;
      // What is worked on already is newer.
      const Entry* const entry = Find(state.number);
      if (entry == nullptr || entry->work == 0) Track(state);
      Tick();
      Wake();
    });
  }
  co_return moved;
}

template <class T>
std::expected<T, std::string> FlowRunner::Await(
    std::function<Task<std::expected<T, std::string>>()> make) {
  using Answer = std::expected<T, std::string>;
  const auto promise = std::make_shared<std::promise<Answer>>();
  auto answer = promise->get_future();
  Post([this, make = std::move(make), promise]() mutable {
    if (is_stopping_) {
      promise->set_value(std::unexpected(kShuttingDown));
      return;
    }
    ++active_;
    Spawn([](std::function<Task<Answer>()> begin, std::shared_ptr<std::promise<Answer>> told)
              -> Task<void> { told->set_value(co_await begin()); }(std::move(make), promise),
          [this] {
            if (--active_ == 0 && drained_) drained_->Set(true);
          });
  });
  while (answer.wait_for(limits::kFlowTick) != std::future_status::ready) {
    if (closed_) return std::unexpected(kShuttingDown);
  }
  return answer.get();
}

std::expected<FlowState, std::string> FlowRunner::Act(const FlowAction& action) {
  return Await<FlowState>([this, action] { return ActNow(action); });
}

std::expected<std::vector<FlowState>, std::string> FlowRunner::List(std::uint64_t after,
                                                                    std::size_t limit) {
  return Await<std::vector<FlowState>>([this, after, limit] { return ListNow(after, limit); });
}

Task<std::expected<std::vector<FlowState>, std::string>> FlowRunner::ListNow(std::uint64_t after,
                                                                             std::size_t limit) {
  using Answer = std::expected<std::vector<FlowState>, std::string>;
  auto page = co_await parts_.ledger.Flows(after, limit, parts_.executor);
  if (!page) co_return Answer(std::unexpected(std::string(page.error().detail())));
  co_return Answer(std::move(*page));
}

Task<std::expected<FlowState, std::string>> FlowRunner::ActNow(FlowAction action) {
  using Answer = std::expected<FlowState, std::string>;
  auto state = co_await Get(action.number);
  if (!state && action.found) state = std::move(action.found);
  if (!state) {
    co_return Answer(std::unexpected("no flow " + std::to_string(action.number) + " is open"));
  }
  if (std::string objection = ObjectionToAction(action, *state); !objection.empty()) {
    co_return Answer(std::unexpected(std::move(objection)));
  }
  if (action.operation != 0 && action.kind != FlowAction::Kind::kNotNeeded) {
    const auto step = co_await Latest(action.operation);
    auto transition = step ? TransitionOf(action, *step) : std::nullopt;
    if (!transition) co_return Answer(std::unexpected(UnreadReason(action.operation)));
    if (!IsTold(action, step->phase)) {
      const auto recorded = co_await parts_.ledger.Record(std::move(*transition), parts_.executor);
      if (!recorded) co_return Answer(std::unexpected(std::string(recorded.error().detail())));
    }
  }
  const FlowMove move = MoveOf(action, *state);
  const auto moved = co_await parts_.ledger.MoveFlow(move, parts_.executor);
  if (!moved) co_return Answer(std::unexpected(std::string(moved.error().detail())));
  Forget(moved->number);
  Track(*moved);
  if (const auto at = entries_.find(moved->number); at != entries_.end()) {
    if (action.kind == FlowAction::Kind::kRetry) at->second.by_human = StuckSteps(*moved);
  }
  Tick();
  Wake();
  co_return Answer(*moved);
}

}  // namespace recourse
