// What an approval rule must agree with elsewhere.
#include <algorithm>

#include "policy/language/policy_builder.h"
#include "policy/model/approval_need.h"
#include "policy/template/template.h"
#include "policy/undo/undo_class.h"

namespace recourse {
namespace {

std::vector<Selector> SelectorsOfConditions(const std::vector<Condition>& conditions) {
  std::vector<Selector> out;
  for (const Condition& condition : conditions) out.push_back(condition.left);
  return out;
}

// Only a path's captures are in every call.
bool MayBeMissing(const Condition& condition) {
  return condition.left.source != Selector::Source::kPath;
}

void WarnAboutConditions(PolicyBuilder& draft, std::size_t index, const ApprovalRule& rule) {
  for (const Condition& condition : rule.when) {
    if (condition.op == Condition::Op::kExists || !MayBeMissing(condition)) continue;
    const auto is_asked_first =
        std::any_of(rule.when.begin(), rule.when.end(), [&](const Condition& other) {
          return other.op == Condition::Op::kExists && other.left.text == condition.left.text;
        });
    if (is_asked_first) continue;
    draft.problems.Warn(draft.ToolPlace(index, "approval"),
                        draft.ToolKey(index, "approval") + ".when",
                        "a call without " + condition.left.text + " always needs a human, as '" +
                            condition.text + "' cannot be evaluated then; add '" +
                            condition.left.text + "' to `when` if it should not");
  }
}

void WarnAboutDeadline(PolicyBuilder& draft, std::size_t index, const ApprovalRule& rule) {
  const Tool& tool = draft.policy.tools[index];
  const Flow* const flow = draft.policy.FlowOf(tool);
  if (flow == nullptr || !flow->deadline || *flow->deadline >= rule.expires) return;
  // What is kept may still be approved: the flow is over, and fences nothing.
  if (flow->on_deadline == OnDeadline::kKeep) return;
  draft.problems.Warn(draft.ToolPlace(index, "approval"),
                      draft.ToolKey(index, "approval") + ".expires",
                      "its flow " + flow->name +
                          " has a deadline before a human must have decided; a flow that breaks "
                          "takes the question back");
}

void CheckCredentialFields(PolicyBuilder& draft, std::size_t index, const ApprovalRule& rule) {
  const Tool& tool = draft.policy.tools[index];
  if (!HasMatch(tool)) return;  // its backend is not known
  const Backend& backend = draft.policy.backends[tool.backend];
  for (const SecretHeader& secret : rule.secrets) {
    if (!KeyRuleOf(tool, backend).at.IsField(secret.name)) continue;
    draft.problems.Error(
        draft.ToolPlace(index, "approval"), draft.ToolKey(index, "approval") + ".credentials",
        secret.name + " is the backend's key_header: the call is sent with its own key");
  }
}

void WarnAboutNobodyToAsk(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  if (!AsksAboutRepeats(tool) || draft.ToolHas(index, "approval")) return;
  const char* const word = tool.on_mismatch == OnMismatch::kAsk ? "on_mismatch" : "across_traces";
  draft.problems.Warn(draft.ToolPlace(index, word), draft.ToolKey(index, word),
                      "`ask` asks nobody, so a suspected duplicate is refused with 409; say who "
                      "decides: approval: { by: [ .. ], when: suspected }");
}

// What nothing takes back is not sent before somebody has said yes, whatever the call says.
void CheckAsksFirst(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  const Flow* const flow = draft.policy.FlowOf(tool);
  const bool may_lack_undo = tool.before && tool.before->missing == BeforeMissing::kGoOn;
  if (flow == nullptr || !flow->irreversible_asks || flow->canceled_by == index ||
      (UndoClassOf(tool) != UndoClass::kIrreversible && !may_lack_undo)) {
    return;
  }
  if (tool.approval && tool.approval->when.empty() && !tool.approval->only_suspected) return;
  if (!tool.approval && draft.ToolHas(index, "approval")) return;  // reported
  draft.problems.Error(
      draft.ToolPlace(index, "approval"), draft.ToolKey(index, "approval"),
      "flow " + flow->name + " says irreversible_first_asks, and this tool is irreversible" +
          (may_lack_undo ? " where before.missing lets it go on: " : ": ") +
          (tool.approval   ? "let it ask about every call, without `when`"
           : may_lack_undo ? "say who is asked, approval: { by: [ team ] }, or missing: refuse"
                           : "say who is asked, approval: { by: [ team ] }, or add an undo"));
}

}  // namespace

void CheckApproval(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  CheckAsksFirst(draft, index);
  if (!tool.approval) {
    WarnAboutNobodyToAsk(draft, index);
    return;
  }
  const ApprovalRule& rule = *tool.approval;
  if (rule.only_suspected && !AsksAboutRepeats(tool)) {
    draft.problems.Error(
        draft.ToolPlace(index, "approval"), draft.ToolKey(index, "approval") + ".when",
        "asks about suspected duplicates alone, and nothing is ever suspected: say "
        "across_traces: ask, on_mismatch: ask, or both");
  }
  std::vector<Selector> places = SelectorsOfConditions(rule.when);
  for (const RequestTemplate::Piece& piece : rule.summary) {
    if (piece.selector) places.push_back(*piece.selector);
  }
  CheckCaptures(draft, index, "approval", places);
  CheckCredentialFields(draft, index, rule);
  if (rule.needs > 1 && rule.by.size() == 1) {
    draft.problems.Warn(
        draft.ToolPlace(index, "approval"), draft.ToolKey(index, "approval") + ".needs",
        "needs " + std::to_string(rule.needs) +
            " approvers, each of whom counts "
            "once: '" +
            rule.by.front() + "' must be a group of at least so many people, not one person");
  }
  if (std::any_of(tool.redact.begin(), tool.redact.end(), IsOfCall)) {
    draft.problems.Error(draft.ToolPlace(index, "redact"), draft.ToolKey(index, "redact"),
                         "names something of the call, which is never stored then; but a call that "
                         "a human has to see is stored, sealed, until somebody has decided");
  }
  WarnAboutConditions(draft, index, rule);
  WarnAboutDeadline(draft, index, rule);
}

}  // namespace recourse
