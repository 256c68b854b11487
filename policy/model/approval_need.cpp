#include "policy/model/approval_need.h"

namespace recourse {

std::optional<std::string> WhyApproval(const ApprovalRule& rule, const CallValues& values) {
  if (rule.only_suspected) return std::nullopt;
  std::string why;
  for (const Condition& condition : rule.when) {
    const std::optional<bool> holds = Evaluate(condition, values);
    if (holds && !*holds) return std::nullopt;
    why += (why.empty() ? "" : ", ") + condition.text;
    if (!holds) why += " (cannot be evaluated on this call)";
  }
  return why.empty() ? "the tool always needs one" : why;
}

bool AsksAboutRepeats(const Tool& tool) {
  return tool.on_mismatch == OnMismatch::kAsk || tool.across_traces == AcrossTraces::kAsk;
}

bool AsksAboutCalls(const Tool& tool) { return tool.approval && !tool.approval->only_suspected; }

}  // namespace recourse
