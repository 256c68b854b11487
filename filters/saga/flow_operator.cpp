#include "filters/saga/flow_operator.h"

#include <optional>
#include <utility>

#include "filters/ledger/model/row_id.h"

namespace recourse {

std::expected<FlowState, std::string> FlowOperator::Act(const FlowAction& action) {
  return loop_.Await<FlowState>([this, action] { return ActNow(action); });
}

std::expected<std::vector<FlowState>, std::string> FlowOperator::List(std::uint64_t after,
                                                                      std::size_t limit) {
  return loop_.Await<std::vector<FlowState>>(
      [this, after, limit] { return ListNow(after, limit); });
}

Task<std::expected<std::vector<FlowState>, std::string>> FlowOperator::ListNow(std::uint64_t after,
                                                                               std::size_t limit) {
  using Answer = std::expected<std::vector<FlowState>, std::string>;
  auto page = co_await tools_.parts.ledger.Flows(after, limit, tools_.parts.executor);
  if (!page) co_return Answer(std::unexpected(std::string(page.error().detail())));
  co_return Answer(std::move(*page));
}

Task<std::expected<FlowState, std::string>> FlowOperator::ActNow(FlowAction action) {
  using Answer = std::expected<FlowState, std::string>;
  auto state = co_await tools_.records.Get(action.number);
  if (!state && action.found) state = std::move(action.found);
  if (!state) {
    co_return Answer(std::unexpected("no flow " + PrintRowId(action.number) + " is open"));
  }
  const auto policy = tools_.parts.policy(state->policy_version);
  const Flow* const flow = policy ? policy->FindFlow(state->name) : nullptr;
  if (std::string objection = ObjectionToAction(action, *state, flow); !objection.empty()) {
    co_return Answer(std::unexpected(std::move(objection)));
  }
  const auto is_moved = co_await RecordStep(action);
  if (!is_moved) co_return Answer(std::unexpected(is_moved.error()));
  const bool is_retry = action.kind == FlowAction::Kind::kRetry;
  StepKeys stuck;
  if (is_retry) stuck = co_await KeysOfStuck(*state);
  std::optional<FlowState> moved;
  if (*is_moved) {
    moved = co_await tools_.records.Get(action.number);
    if (!moved) {
      worker_.follow(state->caller, state->id);  // what was said of its step stands
      co_return Answer(std::unexpected("the flow has moved on"));
    }
  } else {
    auto done =
        co_await tools_.parts.ledger.MoveFlow(MoveOf(action, *state), tools_.parts.executor);
    if (!done) co_return Answer(std::unexpected(std::string(done.error().detail())));
    moved = std::move(*done);
  }
  const std::set<std::uint64_t> stuck_now = StuckSteps(*moved);
  std::erase_if(stuck, [&](const auto& step) { return !stuck_now.contains(step.first); });
  worker_.take_up(*moved, std::move(stuck));
  co_return Answer(*moved);
}

Task<StepKeys> FlowOperator::KeysOfStuck(FlowState state) {
  StepKeys keys;
  for (const std::uint64_t operation : StuckSteps(state)) {
    const auto step = co_await tools_.records.Latest(operation);
    if (step) keys.emplace(operation, step->key);
  }
  co_return keys;
}

Task<std::expected<bool, std::string>> FlowOperator::RecordStep(FlowAction action) {
  using Answer = std::expected<bool, std::string>;
  if (action.operation == 0 || action.kind == FlowAction::Kind::kNotNeeded) co_return false;
  auto step = co_await tools_.records.Latest(action.operation);
  if (!step) co_return Answer(std::unexpected(FlowRecords::UnreadReason(action.operation)));
  if (action.kind != FlowAction::Kind::kDone) {
    if (IsTold(action, step->phase)) co_return false;
    const auto settled = co_await tools_.parts.settling.SettleBy(
        WordOf(action, *step), Resuming(action.reason), tools_.parts.executor);
    if (!settled) co_return Answer(std::unexpected(settled.error()));
    co_return true;
  }
  const auto recorded =
      co_await tools_.parts.ledger.Record(DoneTransition(action, *step), tools_.parts.executor);
  if (!recorded) co_return Answer(std::unexpected(std::string(recorded.error().detail())));
  co_return false;
}

std::expected<Event, std::string> FlowOperator::SettleBy(const HumanWord& word) {
  return loop_.Await<Event>([this, word] { return SettleByNow(word); });
}

std::expected<Event, std::string> FlowOperator::LastOf(std::uint64_t operation) {
  return loop_.Await<Event>([this, operation] { return ReadNow(operation); });
}

Task<std::expected<Event, std::string>> FlowOperator::ReadNow(std::uint64_t operation) {
  using Answer = std::expected<Event, std::string>;
  auto last = co_await tools_.parts.ledger.Read(operation, tools_.parts.executor);
  if (!last) co_return Answer(std::unexpected(std::string(last.error().detail())));
  co_return Answer(std::move(*last));
}

Task<std::expected<Event, std::string>> FlowOperator::SettleByNow(HumanWord word) {
  const auto last = co_await ReadNow(word.operation);
  if (!last) co_return last;
  if (!word.key) word.key = last->key;
  const auto flow =
      co_await tools_.parts.ledger.FindOpenFlow(last->caller, last->flow, tools_.parts.executor);
  const bool resumes = flow && *flow && WaitsForOutcome(**flow);
  std::optional<Transition::FlowEffect> effect;
  if (resumes) effect = Resuming(word.reason);
  auto settled = co_await tools_.parts.settling.SettleBy(std::move(word), std::move(effect),
                                                         tools_.parts.executor);
  if (settled && (settled->is_step || settled->undoes != 0)) {
    worker_.follow(settled->caller, settled->flow);
  }
  co_return settled;
}

}  // namespace recourse
