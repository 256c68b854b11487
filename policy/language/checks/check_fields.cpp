// Fields of a call that are not passed on with it.
#include "policy/language/place_problem.h"
#include "policy/language/policy_builder.h"
#include "proxy/base/http/field_reach.h"

namespace recourse {
namespace {

using Source = Selector::Source;

// What a request of our own may be made of, and what may be known of the call when its answer comes
// late: what was sent.
void CheckSent(PolicyBuilder& draft, std::size_t index, std::string_view word,
               const std::vector<Selector>& places) {
  for (const Selector& place : places) {
    if (place.source != Source::kHeader) continue;
    std::string why = WhyUnseen(place.text, place.name);
    if (why.empty() && ReachOf(place.name) == FieldReach::kPolicy) {
      why = place.text +
            " is not passed on to the backend, so nothing that is sent or remembered of the call "
            "may hold it; it may stand in identity, scope, principal, callers and conditions of "
            "the call";
    }
    if (why.empty()) continue;
    draft.problems.Error(draft.ToolPlace(index, word), draft.ToolKey(index, word), why);
    return;
  }
}

}  // namespace

void CheckFieldsSent(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  if (tool.external_ref) CheckSent(draft, index, "external_ref", {*tool.external_ref});
  if (tool.settle) CheckSent(draft, index, "settle", SelectorsOf(tool.settle->request));
  if (tool.settled_by) CheckSent(draft, index, "settled_by", SelectorsOf(tool.settled_by->request));
  if (tool.before) CheckSent(draft, index, "before", SelectorsOf(tool.before->request));
  std::vector<Selector> of_undo;
  for (const UndoRule* const undo : UndosOf(tool)) {
    for (Selector& place : SelectorsOf(undo->request)) of_undo.push_back(std::move(place));
    for (const Condition& condition : undo->when) of_undo.push_back(condition.left);
    if (!undo->settled_by) continue;
    for (Selector& place : SelectorsOf(undo->settled_by->request)) {
      of_undo.push_back(std::move(place));
    }
  }
  CheckSent(draft, index, "undo", of_undo);
}

}  // namespace recourse
