#include "filters/call/current.h"

#include <algorithm>
#include <string>

#include "proxy/base/http/http_message.h"

namespace recourse {

// Caches tell by these that it was in store, not all by an Age beside.
bool IsOld(const Answer& answer) {
  const Headers& fields = answer.response.headers;
  const std::string* const age = FindHeader(fields, "Age");
  if (age != nullptr && age->find_first_not_of(" 0") != std::string::npos) return true;
  return std::ranges::any_of(fields, [](const Header& field) {
    const std::string name = ToLower(field.first), value = ToLower(field.second);
    if (name == "warning") return value.starts_with("110") || value.starts_with("111");
    const bool is_of_cache = name == "cache-status" || name == "x-cache" ||
                             name == "x-cache-status" || name == "cf-cache-status";
    return is_of_cache && (value.contains("hit") || value.contains("stale"));
  });
}

bool IsWholeAndNew(const Answer& answer) {
  const int status = answer.response.status;
  const bool is_partial = status == 202 || status == 203 || status == 206;
  return answer.body_complete && !answer.over_cap && !is_partial && !IsOld(answer);
}

bool IsOfTheBackend(const Answer& answer) {
  const std::string* const type = FindHeader(answer.response.headers, "Content-Type");
  return answer.message || type == nullptr || ToLower(*type).find("json") != std::string::npos;
}

bool IsBlank(const Json& value) {
  switch (value.kind) {
    case Json::Kind::kNull:
    case Json::Kind::kFalse:
      return true;
    case Json::Kind::kString:
      return value.text.empty();
    case Json::Kind::kNumber:
      return value.text == "0e0";
    case Json::Kind::kArray:
      return value.items.empty();
    case Json::Kind::kObject:
      return value.members.empty();
    default:
      return false;
  }
}

// "@odata.nextLink" and "odata_next_link" are one name.
std::string PlainName(std::string_view name) {
  std::string plain;
  for (const char c : ToLower(name)) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) plain += c;
  }
  return plain;
}

bool TellsError(const Json& body) {
  if (body.kind != Json::Kind::kObject) return false;
  return std::ranges::any_of(body.members, [](const auto& member) {
    const std::string name = PlainName(member.first);
    if (member.second.kind == Json::Kind::kFalse) return name == "ok" || name == "success";
    return (name == "error" || name == "errors" || name == "fault") && !IsBlank(member.second);
  });
}

}  // namespace recourse
