// `undo`: the request that takes an effect back, and with whose credentials it is sent.
#include <algorithm>

#include "policy/language/json_node.h"
#include "policy/language/load_rules.h"
#include "policy/language/place_problem.h"
#include "policy/language/policy_builder.h"
#include "policy/model/tool_names.h"

namespace recourse {
namespace {

constexpr std::string_view kCredentialsHelp =
    "accepted: fields with the files that hold their values, { Authorization: { file: "
    "/run/secrets/token, prefix: \"Bearer \" } }; or from_call (the Authorization of the agent's "
    "call), or a list of the fields to keep from it: [ Authorization, Cookie ]";
constexpr std::string_view kFromCallHelp =
    "accepted: Authorization, Cookie, X-Api-Key, Api-Key, X-Auth-Token, X-Amz-Security-Token, "
    "X-Shopify-Access-Token: fields that are shown to nobody; pass another one on with headers: { "
    "X-Name: "
    "\"{header.X-Name}\" }";

std::optional<Repeatable> ReadRepeatable(MapReader& map) {
  static constexpr std::pair<std::string_view, Repeatable> kValues[] = {
      {"true", Repeatable::kYes}, {"false", Repeatable::kNo}, {"by_key", Repeatable::kByKey}};
  return map.OneOf("repeatable", kValues);
}

bool ReadOnlyIf(MapReader& map) {
  static constexpr std::pair<std::string_view, bool> kValues[] = {{"unchanged", true},
                                                                  {"always", false}};
  return map.OneOf("only_if", kValues).value_or(false);
}

bool ReadRest(MapReader& map) {
  static constexpr std::pair<std::string_view, bool> kValues[] = {{"stays", true}};
  return map.OneOf("rest", kValues).value_or(false);
}

// Places of the call's body that stay as the call has set them.
std::vector<std::string> ReadLeaves(MapReader& map) {
  std::vector<std::string> pointers;
  for (const LocatedText& item : map.Texts("leaves")) {
    auto place = ParseSelector(item.text);
    if (place && place->source == Selector::Source::kBody && !place->name.empty()) {
      pointers.push_back(std::move(place->name));
    } else {
      map.problems().Misspelled(map.KeyOf("leaves"));
      const bool is_word = IsToken(item.text) && !item.text.contains('.');
      map.problems().Error(item.place, item.key,
                           (is_word ? "did you mean 'body#/" + item.text + "'?; " : "") +
                               std::string("accepted: places in the body of the call that need "
                                           "not be put back: leaves: [ body#/comment ]"));
    }
  }
  return pointers;
}

// What counts as undone: statuses, and conditions on answers of any status.
void ReadDone(MapReader& map, UndoRule& rule) {
  std::vector<std::string> statuses;
  for (LocatedText& item : map.Texts("done")) {
    if (item.text.starts_with("answer.")) {
      auto condition = ReadCondition(item, Reads::kAnswer, map.problems());
      if (condition) rule.done_if.push_back(std::move(*condition));
    } else if (const auto one = ParseStatuses({item.text}); !one) {
      map.problems().Error(item.place, item.key,
                           StatusProblem(item.text, one.error()) +
                               ", or a condition: answer.body#/error/code == \"already_refunded\"");
    } else {
      statuses.push_back(std::move(item.text));
    }
  }
  rule.done = ParseStatuses(statuses).value_or(StatusSet());
  if (!map.Has("done")) rule.done.Add(200, 299);
}

bool Names(const std::vector<std::string>& names, std::string_view name) {
  return std::any_of(names.begin(), names.end(),
                     [name](const std::string& one) { return EqualsIgnoreCase(one, name); });
}

void ReadFromCall(MapReader& undo, UndoRule& rule) {
  for (LocatedText& item : undo.Texts("credentials")) {
    std::string name = item.text == "from_call" ? "Authorization" : std::move(item.text);
    if (!IsCredentialField(name) || ToLower(name).starts_with("proxy-") ||
        ToLower(name).starts_with("set-cookie")) {
      undo.problems().Error(item.place, item.key, std::string(kFromCallHelp));
    } else if (Names(rule.from_call, name)) {
      undo.problems().Error(item.place, item.key, name + " is named twice");
    } else {
      rule.from_call.push_back(std::move(name));
    }
  }
}

void ReadCredentials(MapReader& undo, TlsFiles files, UndoRule& rule) {
  const YamlNode* node = undo.Get("credentials");
  if (node == nullptr) return;
  const std::string key = undo.KeyOf("credentials");
  if (node->kind != YamlNode::Kind::kMap) {
    const bool is_word = node->kind == YamlNode::Kind::kScalar;
    if (is_word && node->text != "from_call") {
      undo.problems().Error(node->place, key, std::string(kCredentialsHelp));
    } else {
      ReadFromCall(undo, rule);
    }
    return;
  }
  if (node->members.empty()) {
    undo.problems().Error(node->place, key, std::string(kCredentialsHelp));
  }
  rule.secrets = ReadSecretHeaders(*node, key, files, Sources::kFiles, undo.problems());
}

// One field has one source.
void CheckFields(MapReader& undo, const UndoRule& rule) {
  std::vector<std::string> seen;
  for (const auto& [name, value] : rule.request.headers) seen.push_back(name);
  const auto add = [&](const std::string& name) {
    if (Names(seen, name)) {
      undo.problems().Error(undo.PlaceOf("credentials"), undo.KeyOf("credentials"),
                            name + " is given twice; name one source of its value");
    }
    seen.push_back(name);
  };
  for (const std::string& name : rule.from_call) add(name);
  for (const SecretHeader& secret : rule.secrets) add(secret.name);
}

void ReadForm(MapReader& undo, RequestTemplate& request) {
  const YamlNode* form = undo.Get("form");
  if (form == nullptr) return;
  const std::string key = undo.KeyOf("form");
  if (form->kind != YamlNode::Kind::kMap || form->members.empty()) {
    undo.problems().Error(form->place, key,
                          "a map of field names to texts is accepted here: { charge: "
                          "\"{external_ref}\" }");
    return;
  }
  for (const auto& member : form->members) {
    const std::string member_key = JoinKey(key, member.name);
    if (member.name.find_first_of("{}") != std::string::npos) {
      undo.problems().Error(member.name_place, member_key, "a field name is fixed text");
      continue;
    }
    const auto value = ReadText(member.value, member_key, undo.problems());
    if (!value) continue;
    if (auto text = ParseTemplateText(*value); text) {
      request.form.emplace_back(member.name, std::move(*text));
    } else {
      undo.problems().Error(member.value.place, member_key, TemplateProblem(*value, text.error()));
    }
  }
}

// What an MCP server did is told by its answer; the body of a call is `arguments`.
void RefuseWordsOfHttp(MapReader& undo, const RequestTemplate& request) {
  const bool is_mcp = request.source.starts_with(kToolsCall);
  for (const std::string_view word : {"json", "form", "done"}) {
    if (undo.Get(word) == nullptr || (!is_mcp && word == "done")) continue;
    undo.problems().Error(undo.PlaceOf(word), undo.KeyOf(word),
                          word == "done" ? "an MCP server answers a call without a status of its "
                                           "own; say done_when: answer.body#/canceled == true"
                          : is_mcp       ? "the body of a `call` is its `arguments`"
                                         : "the body of a document is its `variables`");
  }
}

// A GraphQL server says with a 200 that nothing was done, too.
void AddDefaultDone(UndoRule& rule) {
  if (!rule.done_when.empty()) return;
  auto is_there = ParseCondition("answer.body#/data/" + rule.request.calls + " != null");
  if (is_there) rule.done_when.push_back(std::move(*is_there));
}

}  // namespace

void ReadRequestBody(MapReader& undo, RequestTemplate& request) {
  if (!request.calls.empty()) return RefuseWordsOfHttp(undo, request);
  const YamlNode* json = undo.Get("json");
  if (json != nullptr) {
    request.json = ReadJsonNode(*json, undo.KeyOf("json"), Placeholders::kParse, undo.problems());
  }
  ReadForm(undo, request);
  const std::string_view word = json != nullptr ? "json" : "form";
  if (!undo.Has(word)) return;
  if (json != nullptr && undo.Has("form")) {
    undo.problems().Error(undo.PlaceOf("form"), undo.KeyOf("form"),
                          "a request has one body: json or form");
  }
  if (request.method == "GET" || request.method == "HEAD") {
    undo.problems().Error(undo.node().Find(word)->place, undo.KeyOf(word),
                          "GET and HEAD carry no body");
  }
}

namespace {

constexpr std::string_view kUndoHelp =
    "accepted: none, undecided, or { request: \"DELETE /orders/{external_ref}\" }, or of an MCP "
    "server { "
    "call: "
    "cancel_order, arguments: { id: \"{external_ref}\" } }, or of a GraphQL server { graphql: "
    "\"mutation($id: ID!) { issueDelete(id: $id) { success } }\", variables: { id: "
    "\"{external_ref}\" } }, or a list of these with `when`";

UndoRule ReadOneUndo(MapReader& map, const Speaks& speaks, TlsFiles files, bool& is_good) {
  auto request =
      ReadOwnRequest(map, speaks, Effect::kWrite, "the request that takes the effect back");
  UndoRule rule;
  if (request) rule.request = std::move(*request);
  is_good = request.has_value();
  rule.when = ReadConditions(map, "when", Reads::kAlsoBefore);
  ReadDone(map, rule);
  rule.done_when = ReadConditions(map, "done_when", Reads::kAnswer);
  rule.repeatable = ReadRepeatable(map).value_or(Repeatable::kNo);
  rule.only_if_unchanged = ReadOnlyIf(map);
  rule.leaves = ReadLeaves(map);
  rule.rest_stays = ReadRest(map);
  rule.key = ReadUndoKey(
      map, speaks.kind == Speaks::Kind::kGraphql || speaks.kind == Speaks::Kind::kNotKnown);
  rule.then_probe = map.Bool("then_probe").value_or(false);
  rule.settled_by = ReadUndoSettledBy(map, speaks);
  rule.attempts_max =
      ReadCountUpTo(map, "attempts", limits::kUndoAttemptsCap).value_or(rule.attempts_max);
  rule.window = map.Duration("window", Millis(1));
  ReadRequestBody(map, rule.request);
  if (rule.rest_stays && is_good && rule.request.method != "PUT") {
    map.problems().Error(map.PlaceOf("rest"), map.KeyOf("rest"),
                         "speaks of a PUT; any other request leaves what it does not name");
  }
  if (is_good && speaks.kind == Speaks::Kind::kGraphql) AddDefaultDone(rule);
  ReadCredentials(map, files, rule);
  return rule;
}

// What holds for all of them stands in the first.
void TakeFromFirst(MapReader& map, const UndoRule& first, UndoRule& rule) {
  for (const std::string_view word : {"credentials", "attempts", "window"}) {
    if (!map.Has(word)) continue;
    map.problems().Error(map.PlaceOf(word), map.KeyOf(word),
                         "stands in the first of them, and holds for all");
  }
  rule.secrets = first.secrets;
  rule.from_call = first.from_call;
  if (!map.Has("only_if")) rule.only_if_unchanged = first.only_if_unchanged;
  rule.attempts_max = first.attempts_max;
  rule.window = first.window;
}

std::vector<UndoRule> ReadUndoList(const YamlNode& list, const std::string& key,
                                   const Speaks& speaks, TlsFiles files, Problems& problems) {
  std::vector<UndoRule> rules;
  bool are_good = true;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const YamlNode& item = list.items[i];
    MapReader map(item, key + '[' + std::to_string(i) + ']', problems);
    bool is_good = false;
    UndoRule rule = ReadOneUndo(map, speaks, files, is_good);
    if (i + 1 < list.items.size() && !map.Has("when")) {
      problems.Error(map.PlaceOf("when"), map.KeyOf("when"),
                     "is missing, so those after it are never sent; only the last may go without: "
                     "when: answer.body#/status == \"requires_capture\"");
    }
    map.Finish();
    if (!rules.empty()) TakeFromFirst(map, rules.front(), rule);
    CheckFields(map, rule);
    are_good = are_good && is_good;
    rules.push_back(std::move(rule));
  }
  if (list.items.empty()) problems.Error(list.place, key, std::string(kUndoHelp));
  if (!are_good) rules.clear();
  return rules;
}

}  // namespace

std::vector<UndoRule> ReadUndo(MapReader& tool, const Speaks& speaks, TlsFiles files) {
  const YamlNode* node = tool.Get("undo");
  if (node == nullptr) return {};
  const bool is_word = node->kind == YamlNode::Kind::kScalar;
  if (is_word && (node->text == kNoUndo || node->text == kUndecidedUndo)) return {};
  if (node->kind == YamlNode::Kind::kList) {
    return ReadUndoList(*node, tool.KeyOf("undo"), speaks, files, tool.problems());
  }
  if (node->kind != YamlNode::Kind::kMap) {
    tool.problems().Error(node->place, tool.KeyOf("undo"), std::string(kUndoHelp));
    return {};
  }
  MapReader map(*node, tool.KeyOf("undo"), tool.problems());
  bool is_good = false;
  UndoRule rule = ReadOneUndo(map, speaks, files, is_good);
  map.Finish();
  CheckFields(map, rule);
  if (!is_good) return {};
  std::vector<UndoRule> rules;
  rules.push_back(std::move(rule));
  return rules;
}

}  // namespace recourse
