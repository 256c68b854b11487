#include "filters/mcp/era_form.h"

#include "proxy/base/json/json_object.h"
#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kComplete = "\"complete\"";

// Of a member's name, whose closing quote stands at `close`. A quote in it is escaped.
std::size_t OpeningQuote(std::string_view text, std::size_t close) {
  std::size_t at = text.rfind('"', close - 1);
  while (text[at - 1] == '\\') at = text.rfind('"', at - 1);
  return at;
}

// Takes the member with that value out of its object, with the comma that parts it from the others.
void EraseMember(std::string& text, JsonSpan value) {
  std::size_t begin = OpeningQuote(text, text.rfind('"', text.rfind(':', value.at - 1)));
  std::size_t end = text.find_first_not_of(kBlanks, value.at + value.size);
  if (text[end] == ',') {
    ++end;
  } else if (const std::size_t before = text.find_last_not_of(kBlanks, begin - 1);
             text[before] == ',') {
    begin = before;
  }
  text.erase(begin, end - begin);
}

std::string Modern(std::string message) {
  const auto result = FindJsonSpan(message, "/result");
  if (!result || message[result->at] != '{') return message;
  if (FindJsonSpan(message, "/result/resultType")) return message;
  // Not done yet: a task of the older protocol has no other form.
  if (FindJsonSpan(message, "/result/task/taskId")) return message;
  PrependMembers(message, result->at,
                 [](JsonObject& json) { json.Text("resultType", "complete"); });
  return message;
}

std::string Legacy(std::string message) {
  const auto type = FindJsonSpan(message, "/result/resultType");
  if (type && std::string_view(message).substr(type->at, type->size) == kComplete) {
    EraseMember(message, *type);
  }
  const auto output = FindJsonSpan(message, "/result/structuredContent");
  if (output && message[output->at] != '{') {
    const std::string value = message.substr(output->at, output->size);
    message.replace(output->at, output->size,
                    ObjectText([&](JsonObject& json) { json.Raw("result", value); }));
  }
  return message;
}

}  // namespace

std::string InFormOf(McpEra era, std::string message) {
  return era == McpEra::kModern ? Modern(std::move(message)) : Legacy(std::move(message));
}

}  // namespace recourse
