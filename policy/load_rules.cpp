#include "policy/load_rules.h"

#include <algorithm>
#include <array>

#include "policy/draft.h"
#include "policy/json_node.h"

namespace recourse {
namespace {

using Source = Selector::Source;

bool IsAnswer(Source source) {
  return source == Source::kAnswerBody || source == Source::kAnswerHeader ||
         source == Source::kAnswerStatus;
}
bool IsRequest(Source source) {
  return source == Source::kBody || source == Source::kPath || source == Source::kQuery ||
         source == Source::kHeader;
}

std::string_view WrongSource(Source source, Reads reads) {
  if (reads == Reads::kRequest && !IsRequest(source)) {
    return "only the request is known here; accepted: body#/pointer, path.name, query.name, "
           "header.Name";
  }
  if (reads == Reads::kAnswer && !IsAnswer(source)) {
    return "this looks at the answer; accepted: answer.body#/pointer, answer.header.Name, "
           "answer.status";
  }
  if (reads == Reads::kRequestOrAnswer && !IsAnswer(source) && !IsRequest(source)) {
    return "accepted: a place in the answer (answer.body#/id, answer.header.Location) or in the "
           "request";
  }
  return {};
}

// A header whose value is a secret must not stand in the policy (Y14).
bool IsSecretHeader(std::string_view name) {
  static constexpr std::array<std::string_view, 5> kSecrets{"Authorization", "Cookie", "X-Api-Key",
                                                            "Api-Key", "X-Auth-Token"};
  return std::any_of(kSecrets.begin(), kSecrets.end(),
                     [name](std::string_view secret) { return EqualsIgnoreCase(secret, name); });
}

void ReadHeader(const YamlNode::Member& member, const std::string& key, RequestTemplate& request,
                Problems& problems) {
  if (!IsToken(member.name) || IsReservedHeader(member.name)) {
    problems.Error(member.name_place, key,
                   "accepted: the fixed name of a field that is not about framing or routing");
    return;
  }
  const auto value = ReadText(member.value, key, problems);
  if (!value) return;
  auto text = ParseTemplateText(*value);
  if (!text) {
    problems.Error(member.value.place, key, std::string(text.error().detail()));
    return;
  }
  if (!IsFieldValue(*value)) {
    problems.Error(member.value.place, key, "a field value has no line breaks or controls");
  }
  const bool has_placeholder = std::any_of(
      text->begin(), text->end(), [](const auto& piece) { return piece.selector.has_value(); });
  if (IsSecretHeader(member.name) && !has_placeholder) {
    problems.Error(member.value.place, key,
                   "a secret does not belong in this file; pass the agent's own on: \"{header." +
                       member.name + "}\"");
  }
  request.headers.emplace_back(member.name, std::move(*text));
}

std::optional<RequestTemplate> ReadRequest(MapReader& map, std::string_view help) {
  const YamlNode* headers = map.Get("headers");
  const YamlNode* line = map.Need("request", help);
  if (line == nullptr) return std::nullopt;
  const auto text = ReadText(*line, map.KeyOf("request"), map.problems());
  if (!text) return std::nullopt;
  auto request = ParseRequestLine(*text);
  if (!request) {
    map.problems().Error(line->place, map.KeyOf("request"), std::string(request.error().detail()));
    return std::nullopt;
  }
  if (headers != nullptr) {
    MapReader fields(*headers, map.KeyOf("headers"), map.problems());
    for (const auto& member : headers->members) {
      ReadHeader(member, fields.KeyOf(member.name), *request, map.problems());
    }
  }
  return std::move(*request);
}

std::optional<Repeatable> ReadRepeatable(MapReader& map) {
  static constexpr std::pair<std::string_view, Repeatable> kValues[] = {
      {"true", Repeatable::kYes}, {"false", Repeatable::kNo}, {"by_key", Repeatable::kByKey}};
  return map.OneOf("repeatable", kValues);
}

}  // namespace

std::optional<Selector> ReadSelector(const LocatedText& text, Reads reads, Problems& problems) {
  auto selector = ParseSelector(text.text);
  if (!selector) {
    problems.Error(text.place, text.key, std::string(selector.error().detail()));
    return std::nullopt;
  }
  if (const auto wrong = WrongSource(selector->source, reads); !wrong.empty()) {
    problems.Error(text.place, text.key, std::string(wrong));
    return std::nullopt;
  }
  return std::move(*selector);
}

std::vector<Condition> ReadConditions(MapReader& map, std::string_view name, Reads reads) {
  std::vector<Condition> conditions;
  for (const LocatedText& text : map.Texts(name)) {
    auto condition = ParseCondition(text.text);
    if (!condition) {
      map.problems().Error(text.place, text.key, std::string(condition.error().detail()));
      continue;
    }
    if (const auto wrong = WrongSource(condition->left.source, reads); !wrong.empty()) {
      map.problems().Error(text.place, text.key, std::string(wrong));
      continue;
    }
    conditions.push_back(std::move(*condition));
  }
  return conditions;
}

StatusSet ReadStatuses(MapReader& map, std::string_view name) {
  std::vector<std::string> items;
  for (LocatedText& item : map.Texts(name)) {
    if (auto one = ParseStatuses({item.text}); !one) {
      map.problems().Error(item.place, item.key, std::string(one.error().detail()));
    } else {
      items.push_back(std::move(item.text));
    }
  }
  return ParseStatuses(items).value_or(StatusSet());
}

std::optional<SettleRule> ReadSettle(MapReader& tool) {
  const YamlNode* node = tool.Get("settle");
  if (node == nullptr) return std::nullopt;
  MapReader map(*node, tool.KeyOf("settle"), tool.problems());
  auto request = ReadRequest(map,
                             "a read that shows whether the write took effect: request: "
                             "\"GET /orders?client_ref={body#/client_ref}\"");
  SettleRule rule;
  rule.absent_after = map.Duration("absent_after", Millis(0));
  std::optional<Selector> happened;
  const YamlNode* happened_node = map.Need(
      "happened", "what the answer holds when the write took effect: answer.body#/items/0/id");
  if (happened_node != nullptr) {
    const std::string key = map.KeyOf("happened");
    if (const auto text = ReadText(*happened_node, key, tool.problems())) {
      happened = ReadSelector({*text, happened_node->place, key}, Reads::kAnswer, tool.problems());
    }
  }
  map.Finish();
  if (!request || !happened) return std::nullopt;
  if (request->method != "GET" && request->method != "HEAD") {
    tool.problems().Error(map.node().Find("request")->place, map.KeyOf("request"),
                          "a settle request is GET or HEAD: it must change nothing");
  }
  rule.request = std::move(*request);
  rule.happened = std::move(*happened);
  return rule;
}

std::optional<UndoRule> ReadUndo(MapReader& tool) {
  const YamlNode* node = tool.Get("undo");
  if (node == nullptr) return std::nullopt;
  if (node->kind == YamlNode::Kind::kScalar && node->text == "none") return std::nullopt;
  if (node->kind != YamlNode::Kind::kMap) {
    tool.problems().Error(node->place, tool.KeyOf("undo"),
                          "accepted: none, or { request: \"DELETE /orders/{external_ref}\" }");
    return std::nullopt;
  }
  MapReader map(*node, tool.KeyOf("undo"), tool.problems());
  auto request = ReadRequest(map, "the request that takes the effect back");
  UndoRule rule;
  rule.done = ReadStatuses(map, "done");
  if (rule.done.empty()) rule.done.Add(200, 299);
  rule.repeatable = ReadRepeatable(map).value_or(Repeatable::kNo);
  if (const YamlNode* body = map.Get("json"); body != nullptr && request) {
    request->json = ReadJsonNode(*body, map.KeyOf("json"), Placeholders::kParse, tool.problems());
    if (request->method == "GET" || request->method == "HEAD") {
      tool.problems().Error(body->place, map.KeyOf("json"), "GET and HEAD carry no body");
    }
  }
  map.Finish();
  if (!request) return std::nullopt;
  rule.request = std::move(*request);
  return rule;
}

std::optional<ApprovalRule> ReadApproval(MapReader& tool) {
  const YamlNode* node = tool.Get("approval");
  if (node == nullptr) return std::nullopt;
  MapReader map(*node, tool.KeyOf("approval"), tool.problems());
  ApprovalRule rule;
  map.Need("by", "who may approve: by: [ team-support ]");
  for (LocatedText& approver : map.Texts("by")) rule.by.push_back(std::move(approver.text));
  rule.expires = map.Duration("expires", Millis(1)).value_or(rule.expires);
  rule.when = ReadConditions(map, "when", Reads::kRequest);
  map.Finish();
  return rule;
}

}  // namespace recourse
