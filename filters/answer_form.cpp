#include "filters/answer_form.h"

#include <algorithm>

namespace recourse {

bool IsEventStream(const HttpResponse& head) {
  const std::string* const type = FindHeader(head.headers, "Content-Type");
  if (type == nullptr) return false;
  const std::string_view value = *type;
  return EqualsIgnoreCase(TrimBlanks(value.substr(0, value.find(';'))), "text/event-stream");
}

bool EndsStream(std::string_view events) {
  const std::size_t end = events.find_last_not_of("\r\n") + 1;
  const std::string_view after = events.substr(end);
  if (std::ranges::count(after, '\n') < 2) return false;
  const std::size_t before = events.substr(0, end).find_last_of("\r\n");
  const std::string_view line = events.substr(0, end).substr(before + 1);
  return line == "data: [DONE]" || line == "data:[DONE]";
}

bool PassesAsItComes(const Tool* tool, const HttpResponse& head) {
  if (!IsSuccess(head.status)) return false;
  const AnswerForm form = tool == nullptr ? AnswerForm::kByType : tool->answer;
  return form == AnswerForm::kStream || (form == AnswerForm::kByType && IsEventStream(head));
}

}  // namespace recourse
