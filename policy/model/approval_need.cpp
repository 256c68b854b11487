#include "policy/model/approval_need.h"

namespace recourse {
namespace {

std::string WhyBy(const Tool& tool, std::string_view words, const Condition& condition,
                  bool is_read) {
  std::string why = "the policy " + std::string(words) + condition.text + " for " + tool.name;
  if (!is_read) why += ", which cannot be evaluated on this call";
  return why;
}

}  // namespace

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

std::optional<std::string> WhyForbidden(const Tool& tool, const CallValues& values) {
  for (const Condition& condition : tool.deny) {
    if (!Select(condition.left, values)) continue;
    const std::optional<bool> holds = Evaluate(condition, values);
    if (holds.value_or(true)) return WhyBy(tool, "denies ", condition, holds.has_value());
  }
  for (const Condition& condition : tool.allow) {
    const std::optional<bool> holds = Evaluate(condition, values);
    if (!holds.value_or(false)) return WhyBy(tool, "allows only ", condition, holds.has_value());
  }
  return std::nullopt;
}

}  // namespace recourse
