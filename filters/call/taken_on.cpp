#include "filters/call/taken_on.h"

#include <algorithm>
#include <optional>

#include "filters/call/call_values.h"
#include "filters/call/current.h"

namespace recourse {
namespace {

bool LooksAtStatus(const SettledByRule& rule) {
  return std::ranges::any_of(rule.until, [](const Condition& condition) {
    return condition.left.source == Selector::Source::kAnswerStatus;
  });
}

// An error tells of the question, unless the rule asks for just that one, as a 404 of what is gone.
bool MayTell(const SettledByRule& rule, const Answer& answer) {
  if (answer.tells_no_result() || !IsWholeAndNew(answer)) return false;
  if (!IsOfTheBackend(answer) && !answer.response.body.empty()) return false;
  const int status = answer.response.status;
  return LooksAtStatus(rule) || (status >= 200 && status <= 299);
}

}  // namespace

bool SaysDone(const SettledByRule& rule, const Answer& answer, CallValues values) {
  if (!MayTell(rule, answer)) return false;
  const std::optional<Json> body = ReadAnswerBody(answer);
  values.answer_status = answer.response.status;
  values.answer_headers = &answer.response.headers;
  values.answer_body = body ? &*body : nullptr;
  return std::ranges::all_of(rule.until, [&](const Condition& condition) {
    return Evaluate(condition, values).value_or(false);
  });
}

std::optional<std::string> TargetOfLink(const std::string& root, const std::string& base_path,
                                        std::string link) {
  if (link.starts_with(root + "/")) link.erase(0, root.size());
  const bool is_path = link.starts_with('/') && !link.starts_with("//");
  const bool is_plain = std::ranges::all_of(link, [](char c) { return c > 0x20 && c < 0x7f; }) &&
                        link.find_first_of("#\\") == std::string::npos &&
                        link.find("..") == std::string::npos &&
                        ToLower(link).find("%2e") == std::string::npos;
  if (!is_path || !is_plain || !link.starts_with(base_path + "/")) return std::nullopt;
  return link;
}

bool AskAtLink(const SettledByRule& rule, const CallValues& values, RenderedRequest& question) {
  if (!rule.at) return true;
  const std::optional<Json> link = Select(*rule.at, values);
  if (!link || link->kind != Json::Kind::kString) return false;
  auto target = TargetOfLink(rule.root, rule.base_path, link->text);
  if (!target) return false;
  question.target = target->substr(rule.base_path.size());
  return true;
}

}  // namespace recourse
