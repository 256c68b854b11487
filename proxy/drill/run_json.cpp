// A run's result on its way from the process that played it.
#include <charconv>

#include "proxy/base/json.h"
#include "proxy/drill/drill_run.h"

namespace recourse {
namespace {

void Text(std::string& out, std::string_view name, std::string_view value) {
  out.append(",\"").append(name).append("\":");
  AppendJsonString(out, value);
}

void Texts(std::string& out, std::string_view name, const std::vector<std::string>& values) {
  out.append(",\"").append(name).append("\":[");
  for (const std::string& value : values) {
    if (out.back() != '[') out.push_back(',');
    AppendJsonString(out, value);
  }
  out.push_back(']');
}

void Number(std::string& out, std::string_view name, std::size_t value) {
  out.append(",\"").append(name).append("\":").append(std::to_string(value));
}

std::string TextAt(const Json& json, std::string_view name) {
  const Json* value = json.Find(name);
  return value == nullptr ? std::string() : ScalarText(*value);
}

std::size_t NumberAt(const Json& json, std::string_view name) {
  const std::string text = TextAt(json, name);
  std::size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<std::string> TextsAt(const Json& json, std::string_view name) {
  std::vector<std::string> texts;
  const Json* value = json.Find(name);
  if (value == nullptr) return texts;
  for (const Json& item : value->items) texts.push_back(item.text);
  return texts;
}

}  // namespace

std::string ToJson(const RunResult& result) {
  const Verdict& verdict = result.verdict;
  std::string out = R"({"v":1)";
  Number(out, "effects", verdict.effects);
  Number(out, "undone", verdict.undone);
  Text(out, "phase", verdict.phase);
  Text(out, "parked", verdict.parked);
  Texts(out, "broken", verdict.broken);
  Texts(out, "commits", result.commits);
  Number(out, "struck", result.struck);
  Texts(out, "story", result.story);
  out.push_back('}');
  return out;
}

std::optional<RunResult> RunResultFromJson(const std::string& text) {
  const auto json = ParseJson(text);
  if (!json || json->kind != Json::Kind::kObject) return std::nullopt;
  return RunResult{.verdict = {.effects = NumberAt(*json, "effects"),
                               .undone = NumberAt(*json, "undone"),
                               .phase = TextAt(*json, "phase"),
                               .parked = TextAt(*json, "parked"),
                               .broken = TextsAt(*json, "broken")},
                   .commits = TextsAt(*json, "commits"),
                   .struck = NumberAt(*json, "struck"),
                   .story = TextsAt(*json, "story")};
}

}  // namespace recourse
