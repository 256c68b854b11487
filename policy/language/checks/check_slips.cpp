// What is valid, and hardly what was meant.
#include <algorithm>

#include "policy/language/policy_builder.h"

namespace recourse {
namespace {

// "/a/external_ref", "/a/:id", "/a/<id>", "/a/$id": a place without its braces.
bool LacksBraces(const RequestTemplate& request) {
  return std::ranges::any_of(request.path, [](const RequestTemplate::Text& text) {
    if (text.size() != 1) return false;
    const std::string_view step = text[0].literal;
    if (step.size() < 2) return false;
    return step[0] == ':' || step[0] == '<' || step[0] == '$' || step == "external_ref" ||
           step.starts_with("path.") || step.starts_with("answer.");
  });
}

// Whether its call or answer says which one it is about.
bool NamesOneOfMany(const PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  return draft.ToolHas(index, "external_ref") || !tool.identity.empty() ||
         std::ranges::any_of(tool.patterns,
                             [](const std::string& pattern) { return pattern.contains('{'); });
}

void WarnAboutUndoOfNothing(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  for (const UndoRule* const undo : UndosOf(tool)) {
    if (!SelectorsOf(undo->request).empty()) continue;
    if (!NamesOneOfMany(draft, index) && !LacksBraces(undo->request)) continue;
    draft.problems.Warn(draft.ToolPlace(index, "undo"), draft.ToolKey(index, "undo"),
                        "its request takes nothing from the call or its answer, so it is the same "
                        "whatever was done; places stand in braces: {external_ref}, {path.id}, "
                        "{body#/id}");
    return;
  }
}

void WarnAboutDoneAsNotExecuted(PolicyBuilder& draft, std::size_t index) {
  const StatusSet& statuses = draft.policy.tools[index].not_executed;
  for (int status = 200; status <= 299; ++status) {
    if (!statuses.Contains(status)) continue;
    draft.problems.Warn(draft.ToolPlace(index, "not_executed"),
                        draft.ToolKey(index, "not_executed"),
                        "names a success, and what was done then counts as never done: a repeat "
                        "does it again; for errors that come with a 2xx say `failed_when`");
    return;
  }
}

// Operators of any name may be; these are none's.
void WarnAboutApproverOfNoName(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  if (!tool.approval) return;
  for (const std::string& name : tool.approval->by) {
    const bool is_list = name.contains(',') && !name.contains('=');
    if (name != "*" && !is_list) continue;
    draft.problems.Warn(draft.ToolPlace(index, "approval"),
                        draft.ToolKey(index, "approval") + ".by",
                        "'" + name + "' is the name of one group or person, which is hardly " +
                            "anybody's, so nobody could approve; " +
                            (is_list ? "several are a list: by: [ finance, ops ]"
                                     : "name the group whose members may: by: [ finance ]"));
  }
}

}  // namespace

void WarnAboutSlips(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  if (tool.effect != Effect::kRead) {
    WarnAboutUndoOfNothing(draft, index);
    WarnAboutDoneAsNotExecuted(draft, index);
    WarnAboutApproverOfNoName(draft, index);
    return;
  }
  if (tool.is_named() || std::ranges::find(tool.methods, "DELETE") == tool.methods.end()) return;
  draft.problems.Warn(draft.ToolPlace(index, "effect"), draft.ToolKey(index, "effect"),
                      "a DELETE that passes as a read is neither remembered nor undone, and may be "
                      "sent twice; say effect: write");
}

}  // namespace recourse
