#include "filters/call/current.h"

#include <string>

#include "proxy/base/http/http_message.h"

namespace recourse {

bool IsOld(const Answer& answer) {
  const std::string* const age = FindHeader(answer.response.headers, "Age");
  return age != nullptr && age->find_first_not_of(" 0") != std::string::npos;
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
