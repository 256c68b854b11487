#include "filters/settle/absence.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "filters/call/call_values.h"
#include "filters/call/current.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json.h"

namespace recourse {
namespace {

constexpr int kDepthMax = 8;

bool MeansMore(std::string_view name) {
  static constexpr std::array<std::string_view, 3> kBeginnings = {"next", "hasnext", "odatanext"};
  static constexpr std::array<std::string_view, 12> kNames = {
      "hasmore",           "more",
      "moreresults",       "cursor",
      "endcursor",         "continue",
      "continuationtoken", "truncated",
      "istruncated",       "lastevaluatedkey",
      "pagetoken",         "incompleteresults"};
  const std::string plain = PlainName(name);
  return std::ranges::any_of(kBeginnings,
                             [&](std::string_view begin) { return plain.starts_with(begin); }) ||
         std::ranges::find(kNames, plain) != kNames.end();
}

bool IsLinkToNext(const Json& object) {
  const Json* const rel = object.Find("rel");
  return rel != nullptr && rel->kind == Json::Kind::kString && ToLower(rel->text) == "next";
}

// "isLast": false of Jira, "last": false of Spring, "timed_out": true of Elasticsearch.
bool IsPart(std::string_view name, const Json& value) {
  static constexpr std::array<std::string_view, 4> kWhole = {"last", "islast", "lastpage",
                                                             "islastpage"};
  static constexpr std::array<std::string_view, 4> kPart = {"timedout", "partial", "ispartial",
                                                            "partialresults"};
  const auto& names = value.kind == Json::Kind::kFalse ? kWhole : kPart;
  const bool is_flag = value.kind == Json::Kind::kFalse || value.kind == Json::Kind::kTrue;
  return is_flag && std::ranges::find(names, PlainName(name)) != names.end();
}

// What stands in an element of a list speaks of that.
bool HasMore(const Json& value, int depth = 0, bool is_element = false) {
  if (depth > kDepthMax) return true;
  if (value.kind == Json::Kind::kArray) {
    return std::ranges::any_of(value.items,
                               [&](const Json& item) { return HasMore(item, depth + 1, true); });
  }
  if (value.kind != Json::Kind::kObject) return false;
  return IsLinkToNext(value) || std::ranges::any_of(value.members, [&](const auto& member) {
           const bool says_so = (MeansMore(member.first) && !IsBlank(member.second)) ||
                                (!is_element && IsPart(member.first, member.second));
           return says_so || HasMore(member.second, depth + 1, is_element);
         });
}

// RFC 8288: parameters in any order, quoted or not, several relations in one.
bool LinksToNext(std::string_view link) {
  const std::string text = ToLower(link);
  for (std::size_t at = text.find("rel"); at != std::string::npos; at = text.find("rel", at + 3)) {
    const auto end = std::min(text.find_first_of(";,", at), text.size());
    if (text.substr(at, end - at).find("next") != std::string::npos) return true;
  }
  return false;
}

bool FieldsHaveMore(const Headers& fields) {
  return std::ranges::any_of(fields, [](const Header& field) {
    if (EqualsIgnoreCase(field.first, "Link")) return LinksToNext(field.second);
    const std::string name = ToLower(field.first);
    return name.starts_with("x-") && !field.second.empty() &&
           (MeansMore(std::string_view(name).substr(2)) || name == "x-ms-continuation");
  });
}

// On the way to the place, or there, is an array, and it is empty.
bool IsListEmpty(const Json& root, std::string_view pointer) {
  for (std::size_t end = 0;;) {
    const Json* const at = AtPointer(root, pointer.substr(0, end));
    if (at == nullptr) return false;
    if (at->kind == Json::Kind::kArray && at->items.empty()) return true;
    if (end == pointer.size()) return false;
    end = std::min(pointer.find('/', end + 1), pointer.size());
  }
}

}  // namespace

bool SaysAbsent(const SettleRule& rule, const Answer& answer) {
  if (rule.absent.empty()) return false;
  const std::optional<Json> body = ReadAnswerBody(answer);
  CallValues values;
  values.answer_status = answer.response.status;
  values.answer_headers = &answer.response.headers;
  values.answer_body = body ? &*body : nullptr;
  return std::ranges::any_of(rule.absent, [&](const Condition& condition) {
    return Evaluate(condition, values).value_or(false);
  });
}

bool MayShowList(const Answer& answer) {
  const int status = answer.response.status;
  if (!IsWholeAndNew(answer) || status < 200 || status > 299 || !IsOfTheBackend(answer))
    return false;
  const std::optional<Json> body = ReadAnswerBody(answer);
  return body && !TellsError(*body);
}

bool EndsList(const Answer& answer) {
  if (!IsWholeAndNew(answer) || FieldsHaveMore(answer.response.headers)) return false;
  const std::optional<Json> body = ReadAnswerBody(answer);
  return body && !HasMore(*body);
}

bool StatesAbsence(const SettleRule& rule, const Answer& answer) {
  const HttpResponse& response = answer.response;
  if (!IsWholeAndNew(answer)) return false;
  if (FieldsHaveMore(response.headers)) return false;
  const std::optional<Json> body = ReadAnswerBody(answer);
  if (body && HasMore(*body)) return false;
  if (SaysAbsent(rule, answer)) return true;
  if (rule.asks_before) return false;  // that the thing itself is gone is another state
  if (response.status == 404) return response.body.empty() || (body && IsOfTheBackend(answer));
  const bool is_success = response.status >= 200 && response.status <= 299;
  if (!is_success || !body || !IsOfTheBackend(answer) || TellsError(*body)) return false;
  return rule.happened.source == Selector::Source::kAnswerBody &&
         IsListEmpty(*body, rule.happened.name);
}

}  // namespace recourse
