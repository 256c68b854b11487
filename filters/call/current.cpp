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

}  // namespace recourse
