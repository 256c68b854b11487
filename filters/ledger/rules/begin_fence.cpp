#include "filters/ledger/rules/begin_fence.h"

#include <algorithm>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/open_flows.h"

namespace recourse {

Judged<std::uint64_t> FenceOf(const NewOperation& call, const FoundOperation* found, Known& known) {
  if (!call.event.is_step) return 0;
  std::optional<StepUpdate> began;
  if (found != nullptr) {
    const auto last = known.Get(EventAt{found->entry.last_event, AnswerPart::kOnlyRequest});
    if (!last) return std::unexpected(last.error());
    began = NewsOf(**last);
  }
  const std::string_view caller = began ? began->caller : call.event.caller;
  const std::string_view flow = began ? began->flow : call.event.flow;
  const auto fence = known.Get(FenceAt{FlowKeyOf(caller, flow)});
  if (!fence) return std::unexpected(fence.error());
  if (found != nullptr) return call.passes_fence || !began ? 0 : (*fence)->fenced_by;
  if (!(*fence)->is_there && (*fence)->is_full) {
    return Fails(Error(ErrorCode::kOverloaded, "too many flows are open", Delivery::kNotSent));
  }
  if ((*fence)->is_too_long) {
    return Fails(Error(ErrorCode::kQuotaExceeded,
                       "the flow has 10,000 writes; close it or begin another trace",
                       Delivery::kNotSent));
  }
  return (*fence)->fenced_by;
}

Judged<void> CheckUndo(const NewOperation& call, Known& known) {
  if (call.event.undoes == 0) return {};
  const auto named = known.Get(FlowNamed{FlowKeyOf(call.event.caller, call.event.flow)});
  const auto forward = known.Get(OperationOf{call.event.undoes});
  if (!named || !forward) return StopOf(named, forward);
  const auto& flow = (*named)->flow;
  if (!flow || flow->phase != FlowPhase::kUndoing) {
    return Fails(Error(ErrorCode::kInternal, "an undo of a flow that is not being undone",
                       Delivery::kNotSent));
  }
  const bool is_due = std::ranges::any_of(flow->steps, [&](const FlowStep& step) {
    return step.operation == call.event.undoes && IsExecuted(step.phase) &&
           step.end == StepEnd::kNone;
  });
  // The number of what is undone is in the key of its undo.
  const bool is_it = **forward && call.event.key == UndoKeyOf((**forward)->key, call.event.undoes);
  if (is_due) return is_it ? Judged<void>() : Fails(OtherCallError());
  return Fails(
      Error(ErrorCode::kInternal, "an undo of a step that needs none", Delivery::kNotSent));
}

}  // namespace recourse
