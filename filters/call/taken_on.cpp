#include "filters/call/taken_on.h"

#include <algorithm>
#include <optional>

#include "filters/call/call_values.h"
#include "filters/call/current.h"

namespace recourse {

bool SaysDone(const SettledByRule& rule, const Answer& answer, CallValues values) {
  if (answer.tells_no_result() || !IsWholeAndNew(answer)) return false;
  const std::optional<Json> body = ReadAnswerBody(answer);
  values.answer_status = answer.response.status;
  values.answer_headers = &answer.response.headers;
  values.answer_body = body ? &*body : nullptr;
  return std::ranges::all_of(rule.until, [&](const Condition& condition) {
    return Evaluate(condition, values).value_or(false);
  });
}

}  // namespace recourse
