// A run's result on its way from the process that played it.
#include <charconv>

#include "proxy/base/json/json_object.h"
#include "proxy/drill/drill_run.h"

namespace recourse {
namespace {

std::size_t NumberAt(const Json& json, std::string_view name) {
  const std::string text = ScalarText(json, name);
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
  const DrillVerdict& verdict = result.verdict;
  return ObjectText([&](JsonObject& json) {
    json.Number("v", 1);
    json.Number("effects", verdict.effects);
    json.Number("undone", verdict.undone);
    json.Text("phase", verdict.phase);
    json.Text("parked", verdict.parked);
    json.Texts("broken", verdict.broken);
    json.Texts("commits", result.commits);
    json.Number("struck", result.struck);
    json.Texts("story", result.story);
    json.Text("not_done", result.not_done);
  });
}

std::optional<RunResult> RunResultFromJson(const std::string& text) {
  const auto json = ParseJson(text);
  if (!json || json->kind != Json::Kind::kObject) return std::nullopt;
  return RunResult{.verdict = {.effects = NumberAt(*json, "effects"),
                               .undone = NumberAt(*json, "undone"),
                               .phase = ScalarText(*json, "phase"),
                               .parked = ScalarText(*json, "parked"),
                               .broken = TextsAt(*json, "broken")},
                   .commits = TextsAt(*json, "commits"),
                   .struck = NumberAt(*json, "struck"),
                   .story = TextsAt(*json, "story"),
                   .not_done = ScalarText(*json, "not_done")};
}

}  // namespace recourse
