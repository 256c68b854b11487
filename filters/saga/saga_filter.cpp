#include "filters/saga/saga_filter.h"

#include <utility>

#include "filters/call/answers.h"
#include "filters/call/call_values.h"
#include "filters/call/flow_name.h"
#include "filters/ledger/model/row_id.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

bool MaySay(const Policy& policy, FlowOrder::Kind kind) {
  return kind == FlowOrder::Kind::kClose ? policy.flow_rules.agent_may_close
                                         : policy.flow_rules.agent_may_cancel;
}

FlowMove MoveOf(FlowOrder::Kind kind) {
  if (kind == FlowOrder::Kind::kClose) {
    return {
        .to = FlowPhase::kCommitted, .cause = FlowCause::kClosed, .reason = "its agent closed it"};
  }
  return {
      .to = FlowPhase::kBreaking, .cause = FlowCause::kCanceled, .reason = "its agent canceled it"};
}

// That of a write that this request might be.
std::string OwnFlow(const RequestContext& context) {
  const auto body = ReadingOf(context);
  return FlowOfCall(context, body ? **body : CallBody()).text;
}

// 202 for a flow that is being undone: that takes its time.
WriteAnswer AnswerOf(const FlowState& flow) {
  WriteAnswer answer;
  answer.response.status = flow.phase == FlowPhase::kCommitted ? 200 : 202;
  answer.response.headers = {{"Content-Type", "application/json"}, {"Recourse-Flow", flow.id}};
  answer.response.body = ObjectText([&](JsonObject& json) {
    json.Text("flow", flow.id);
    json.Raw("number", RowIdJson(flow.number));
    json.Text("phase", NameOf(flow.phase));
    json.Number("steps", flow.steps.size());
  });
  return answer;
}

// What has gone out to the ledger may be done all the same.
WriteAnswer RefusalOf(const Error& error) {
  ProblemFacts facts;
  if (error.delivery() != Delivery::kNotSent) {
    facts.outcome = "unknown";
    facts.advice = "Say it again later: the answer tells what has become of the flow.";
  }
  return MakeProblem(error.code(), error.detail(), facts);
}

}  // namespace

Task<Result<Outcome>> SagaFilter::Handle(RequestContext& context, Next next) {
  const auto order = ReadFlowOrder(context.request.headers);
  return order ? CarryOut(context, *order) : next(context);
}

Task<Result<Outcome>> SagaFilter::CarryOut(RequestContext& context, FlowOrder order) {
  if (context.policy == nullptr || !MaySay(*context.policy, order.kind)) {
    co_return LocalOutcome(MakeProblem(
        ErrorCode::kDenied,
        "the policy does not let agents do this to their flows (flow_rules: agents_may)"));
  }
  std::string flow = std::move(order.flow);
  if (flow.empty() && !IsLarge(context)) {
    flow = OwnFlow(context);
  } else if (flow.empty()) {
    const bool has_run = co_await context.keeper->RunApart(
        [&context, &flow] { flow = OwnFlow(context); }, *context.executor);
    if (!has_run) co_return LocalOutcome(MakeProblem(ErrorCode::kOverloaded, kNoRoomApart));
  }
  const auto moved = co_await flowing_.Order(context.caller, std::move(flow), MoveOf(order.kind),
                                             *context.executor);
  if (moved) co_return LocalOutcome(AnswerOf(*moved));
  if (moved.error().code() == ErrorCode::kInternal) {
    co_return LocalOutcome(MakeProblem(ErrorCode::kFlowClosed, "no flow of that name is open"));
  }
  co_return LocalOutcome(RefusalOf(moved.error()));
}

}  // namespace recourse
