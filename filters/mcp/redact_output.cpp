#include "filters/mcp/redact_output.h"

#include <algorithm>

#include "proxy/base/json/json.h"
#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

// Every text in which a value at `place` could be read, below `value`.
void CollectTexts(const Json& value, std::vector<std::string>& texts) {
  if (value.is_scalar()) {
    if (std::string text = ScalarText(value); !text.empty()) texts.push_back(std::move(text));
  }
  for (const Json& item : value.items) CollectTexts(item, texts);
  for (const Json::Member& member : value.members) CollectTexts(member.second, texts);
}

// Replaces the value at `pointer`; the text that it had goes into `found`.
bool Replace(std::string& json, const std::string& pointer, std::string_view instead,
             std::vector<std::string>& found) {
  const auto span = FindJsonSpan(json, pointer);
  if (!span) return false;
  if (const auto value = ParseJson(std::string_view(json).substr(span->at, span->size))) {
    CollectTexts(*value, found);
  }
  json.replace(span->at, span->size, instead);
  return true;
}

bool IsContainer(std::string_view json) {
  const auto value = ParseJson(json);
  return value && !value->is_scalar();
}

}  // namespace

bool RedactMcpOutput(std::string& message, const std::vector<Selector>& places,
                     std::string_view instead, std::string& taken) {
  const auto parsed = ParseJson(message);
  if (!parsed) return false;
  const bool is_structured = AtPointer(*parsed, "/result/structuredContent") != nullptr;
  std::vector<std::string> found;
  std::vector<bool> is_found(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    is_found[i] = Replace(message, "/result/structuredContent" + places[i].name, instead, found);
  }
  const Json* const content = AtPointer(*parsed, "/result/content");
  const std::size_t items = content == nullptr ? 0 : content->items.size();
  for (std::size_t item = 0; item < items; ++item) {
    const Json* const text = content->items[item].Find("text");
    if (text == nullptr || text->kind != Json::Kind::kString) continue;
    std::string words = text->text;
    if (!IsContainer(words)) {
      const bool tells = std::any_of(found.begin(), found.end(), [&](const std::string& value) {
        return words.find(value) != std::string::npos;
      });
      if (!is_structured || tells) return false;
      continue;
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (Replace(words, places[i].name, instead, found)) is_found[i] = true;
    }
    std::string quoted;
    AppendJsonString(quoted, words);
    const auto span = FindJsonSpan(message, "/result/content/" + std::to_string(item) + "/text");
    message.replace(span->at, span->size, quoted);
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (is_found[i]) taken += (taken.empty() ? "" : ", ") + places[i].text;
  }
  return true;
}

}  // namespace recourse
