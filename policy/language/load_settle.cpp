// `settle`: the request that asks whether a write took effect, and how its answer tells.
#include <algorithm>
#include <array>
#include <utility>

#include "policy/language/json_node.h"
#include "policy/language/load_rules.h"
#include "policy/language/place_problem.h"
#include "policy/language/policy_builder.h"
#include "policy/template/own_terms.h"

namespace recourse {
namespace {

using Where = RequestPlace::Where;

constexpr std::string_view kSearchHelp =
    "accepted: a place of its answer (answer.body#/items/0/id), or a list to search: { in: "
    "answer.body#/data, where: \"metadata/key == {key}\", take: id, pages: 5, next: "
    "answer.header.Link }";
constexpr std::string_view kStateHelp =
    "a state may be there already, or by another hand: a condition is held against what `before` "
    "has read; ask by request: before";
constexpr std::string_view kReachedHelp =
    "accepted: conditions on what `before` keeps: answer.body#/status == \"VOIDED\"; or as_set: "
    "what the call sets";
constexpr std::string_view kAsSet = "as_set", kBefore = "before";
constexpr std::string_view kWhereHelp =
    "accepted: a place in the element and a text, such as \"metadata/key == {key}\"";
constexpr std::string_view kTwinShape =
    "{ when: 'answer.body#/code == \"already_exists\"', then: settle }, its condition alone, or a "
    "list of these";
constexpr int kPagesMax = 20;

// "metadata/key" in an element, as a pointer.
std::string PointerInto(std::string_view text) {
  return text.starts_with('/') ? std::string(text) : "/" + std::string(text);
}

// The element is meant, and a place of the whole answer is none of its names.
void WarnAboutElement(const LocatedText& item, std::string_view place, Problems& problems) {
  static constexpr std::string_view kOthers[] = {"answer.", "body#", "$.", "request.", "before."};
  const bool is_other = std::ranges::any_of(
      kOthers, [place](std::string_view beginning) { return place.starts_with(beginning); });
  Selector in_element{Selector::Source::kAnswerBody, PointerInto(place), std::string(place)};
  if (is_other) {
    problems.Warn(item.place, item.key,
                  std::string(place) +
                      " is taken for a name in the element, and will hardly ever match: write the "
                      "place in it, such as metadata/key");
  } else {
    WarnAboutPointer(item, in_element, problems);
  }
}

std::optional<SearchRule::Test> ReadTest(const LocatedText& item, Problems& problems) {
  const auto equals = item.text.find(" == ");
  SearchRule::Test test;
  if (equals != std::string::npos) test.pointer = PointerInto(item.text.substr(0, equals));
  auto value = equals == std::string::npos ? Result<RequestTemplate::Text>()
                                           : ParseTemplateText(item.text.substr(equals + 4));
  const bool is_good = equals != std::string::npos && value && !value->empty() &&
                       IsJsonPointer(test.pointer) && test.pointer.size() > 1;
  if (!is_good) {
    problems.Error(item.place, item.key, std::string(kWhereHelp));
    return std::nullopt;
  }
  WarnAboutElement(item, std::string_view(item.text).substr(0, equals), problems);
  test.value = std::move(*value);
  test.text = item.text;
  return test;
}

// Not that of a GraphQL server, whose variables are named by their whole pointer.
bool CallsMcpTool(const RequestTemplate& request) {
  if (request.calls.empty() || !request.json) return false;
  return std::ranges::any_of(request.json->members,
                             [](const auto& member) { return member.first == "params"; });
}

bool IsDocument(const RequestTemplate& request) {
  return !request.calls.empty() && !CallsMcpTool(request);
}

// Where a cursor has room: in a body that is an object or a form, among the arguments of a call.
std::string_view WhyNoCursor(const RequestTemplate& request, const RequestPlace& place) {
  const bool is_call = !request.calls.empty();
  if (place.where == Where::kQuery) return is_call ? "a call of a tool has no query" : "";
  if (is_call || (request.json && request.json->kind == Json::Kind::kObject)) return {};
  if (request.form.empty()) {
    return "the request has no `json` that is an object, and no `form`, where it could stand";
  }
  const bool is_one = place.name.find('/', 1) == std::string::npos;
  return is_one ? "" : "a form has no objects that it could stand in";
}

void ReadCursor(MapReader& map, const RequestTemplate& request, SearchRule& search) {
  const auto text = map.Text("cursor");
  if (!text) return;
  if (NamesVariables(*text) && !IsDocument(request)) {
    map.problems().Error(map.PlaceOf("cursor"), map.KeyOf("cursor"), NoVariables(*text));
    return;
  }
  const auto place = ParseRequestPlace(*text);
  if (!place || !place->is_inside() || place->is_in_document()) {
    map.problems().Error(map.PlaceOf("cursor"), map.KeyOf("cursor"),
                         "accepted: where the value at `next` goes: query.cursor, body#/cursor; "
                         "without it that is a link");
    return;
  }
  if (const auto why = WhyNoCursor(request, *place); !why.empty()) {
    map.problems().Error(map.PlaceOf("cursor"), map.KeyOf("cursor"), std::string(why));
    return;
  }
  search.cursor = *place;
  if (CallsMcpTool(request)) search.cursor.name.insert(0, "/params/arguments");
}

void ReadNext(MapReader& map, const RequestTemplate& request, SearchRule& search) {
  const auto pages = ReadCountUpTo(map, "pages", kPagesMax);
  search.pages = pages.value_or(search.pages);
  if (const auto text = map.Text("next")) {
    search.next = ReadSelector({*text, map.PlaceOf("next"), map.KeyOf("next")}, Reads::kAnswer,
                               map.problems());
  }
  ReadCursor(map, request, search);
  if (map.Has("pages") && !map.Has("next")) {
    map.problems().Error(map.PlaceOf("pages"), map.KeyOf("pages"),
                         "needs `next`: where the answer says what follows: answer.header.Link");
  } else if (map.Has("cursor") && !map.Has("next")) {
    map.problems().Error(map.PlaceOf("cursor"), map.KeyOf("cursor"),
                         "needs `next`: where the answer has the value that goes there");
  } else if (map.Has("next") && search.pages < 2 && (pages || !map.Has("pages"))) {
    map.problems().Error(map.PlaceOf("next"), map.KeyOf("next"),
                         "needs `pages`: how many are read at most, 2 to 20");
  }
}

// The list, and which element of it.
void ReadSearch(const YamlNode& node, const std::string& key, Problems& problems,
                SettleRule& rule) {
  MapReader map(node, key, problems);
  SearchRule search;
  if (map.Need("in", "the list in its answer: in: answer.body#/data") != nullptr) {
    if (const auto text = map.Text("in")) {
      auto list =
          ReadSelector({*text, map.PlaceOf("in"), map.KeyOf("in")}, Reads::kAnswer, problems);
      if (list && list->source != Selector::Source::kAnswerBody) {
        problems.Error(map.PlaceOf("in"), map.KeyOf("in"), "accepted: answer.body#/pointer");
      } else if (list) {
        rule.happened = std::move(*list);
      }
    }
  }
  map.Need("where", "which element it is: where: \"metadata/key == {key}\"");
  for (const LocatedText& item : map.Texts("where")) {
    auto test = ReadTest(item, problems);
    if (!test) continue;
    rule.request.headers.emplace_back(std::string(kWhereTerm), test->value);
    search.where.push_back(std::move(*test));
  }
  const std::string take = map.Text("take").value_or("id");
  WarnAboutElement({take, map.PlaceOf("take"), map.KeyOf("take")}, take, map.problems());
  search.take = PointerInto(take);
  ReadNext(map, rule.request, search);
  map.Finish();
  rule.search = std::move(search);
}

bool IsCondition(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kList) return std::ranges::any_of(node.items, IsCondition);
  const auto condition = ParseCondition(node.text);
  return node.kind == YamlNode::Kind::kScalar && condition &&
         condition->op != Condition::Op::kExists;
}

void ReadHappened(MapReader& map, SettleRule& rule) {
  const YamlNode* const node = map.Need(
      "happened", "what the answer holds when the write took effect: answer.body#/items/0/id");
  if (node == nullptr) return;
  const std::string key = map.KeyOf("happened");
  if (node->kind == YamlNode::Kind::kMap) return ReadSearch(*node, key, map.problems(), rule);
  if (IsCondition(*node) || node->text == kAsSet) {
    map.problems().Error(node->place, key, std::string(kStateHelp));
    return;
  }
  if (node->kind != YamlNode::Kind::kScalar) {
    map.problems().Error(node->place, key, std::string(kSearchHelp));
    return;
  }
  const auto text = ReadText(*node, key, map.problems());
  if (!text) return;
  auto place = ReadSelector({*text, node->place, key}, Reads::kAnswer, map.problems());
  if (place) rule.happened = std::move(*place);
}

std::string Suggested(std::string_view text) {
  const std::string meant = PlaceMeant(text, Reads::kRequest);
  const bool is_inside = meant.starts_with("body#") || meant.starts_with("query.");
  return !is_inside ? std::string() : "did you mean '" + meant + "'?; ";
}

void ReadMark(MapReader& map, const Speaks& speaks, SettleRule& rule) {
  const auto text = map.Text("mark");
  if (!text) return;
  const bool is_path = speaks.kind == Speaks::Kind::kHttp;
  if (is_path && NamesVariables(*text)) {
    map.problems().Error(map.PlaceOf("mark"), map.KeyOf("mark"), NoVariables(*text));
    return;
  }
  const auto place = ParseRequestPlace(*text);
  if (!place || !place->is_inside() || place->is_in_document()) {
    map.problems().Error(map.PlaceOf("mark"), map.KeyOf("mark"),
                         Suggested(*text) +
                             "accepted: where the write takes a word of its own that reads show: "
                             "body#/metadata/recourse_key, query.tag");
  } else if (speaks.kind == Speaks::Kind::kMcp || speaks.kind == Speaks::Kind::kGraphql) {
    map.problems().Error(map.PlaceOf("mark"), map.KeyOf("mark"),
                         "is for paths; nothing is added to the arguments of a call by name");
  } else {
    rule.mark = *place;
  }
}

// A request that asks changes nothing, whatever its method; of others than GET the policy says so.
void CheckAsks(MapReader& map, bool is_safe, const RequestTemplate& request) {
  if (!request.calls.empty()) return;  // what it calls tells
  const bool is_read = request.method == "GET" || request.method == "HEAD";
  if (!is_read && !is_safe) {
    map.problems().Error(map.PlaceOf("request"), map.KeyOf("request"),
                         "is GET or HEAD: it asks, and must change nothing; of another method that "
                         "only asks, such as a search, say safe: true");
  }
}

constexpr std::string_view kQuestionHelp =
    "a read that shows whether what was taken on is done: request: \"GET "
    "/jobs/{answer.body#/job/id}\"";

constexpr std::string_view kQuestionShape =
    "{ request: \"GET /jobs/{answer.body#/job/id}\", until: 'answer.body#/status == "
    "\"completed\"' }";

// What `settled_by` says beside its request.
std::optional<SettledByRule> ReadQuestion(MapReader& map, std::optional<RequestTemplate> request) {
  map.Need("until", "conditions on its answer: answer.body#/status == \"completed\"");
  SettledByRule rule;
  const bool is_good = request.has_value();
  if (is_good) rule.request = std::move(*request);
  const bool is_safe = map.Bool("safe").value_or(false);
  ReadRequestBody(map, rule.request);
  if (is_good) CheckAsks(map, is_safe, rule.request);
  rule.until = ReadConditions(map, "until", Reads::kAnswer);
  rule.deadline = map.Duration("deadline", Millis(1)).value_or(rule.deadline);
  map.Finish();
  if (!is_good || rule.until.empty()) return std::nullopt;
  return rule;
}

}  // namespace

std::vector<Condition> ReadHappenedIf(MapReader& tool) {
  static constexpr std::pair<std::string_view, bool> kThen[] = {{"settle", true}};
  const YamlNode* const node = tool.Get("happened_if");
  std::vector<Condition> conditions;
  if (node == nullptr) return conditions;
  const auto read = [&](const YamlNode& one, const std::string& key) {
    const YamlNode* text = &one;
    if (one.kind == YamlNode::Kind::kMap) {
      MapReader map(one, key, tool.problems());
      text = map.Need("when", "a condition on the answer: " + std::string(kTwinShape));
      map.Need("then", "settle: a read has to tell: " + std::string(kTwinShape));
      (void)map.OneOf("then", kThen);
      map.Finish();
    }
    if (text == nullptr) return;
    if (text->kind != YamlNode::Kind::kScalar) {
      tool.problems().Error(text->place, key, "accepted: " + std::string(kTwinShape));
    } else if (const auto place = ReadText(*text, key, tool.problems())) {
      auto condition = ReadCondition({*place, text->place, key}, Reads::kAnswer, tool.problems());
      if (condition) conditions.push_back(std::move(*condition));
    }
  };
  const std::string key = tool.KeyOf("happened_if");
  const bool is_list = node->kind == YamlNode::Kind::kList;
  if (!is_list) read(*node, key);
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    read(node->items[i], key + '[' + std::to_string(i) + ']');
  }
  if (is_list && node->items.empty()) {
    tool.problems().Error(node->place, key, "accepted: " + std::string(kTwinShape));
  }
  return conditions;
}

bool SaysNone(const YamlNode& settle) {
  return settle.kind == YamlNode::Kind::kScalar && settle.text == "none";
}

namespace {

// All that say how to ask.
constexpr std::array<std::string_view, 8> kAsking = {"call", "arguments", "graphql", "variables",
                                                     "json", "form",      "safe",    "mark"};

void ReadReached(MapReader& map, SettleRule& rule) {
  const YamlNode* const node = map.Need("happened", kReachedHelp);
  if (node == nullptr || node->text == kAsSet) return;
  if (node->kind == YamlNode::Kind::kMap) {
    map.problems().Error(node->place, map.KeyOf("happened"),
                         std::string(kReachedHelp) + "; a list has a request of its own");
    return;
  }
  if (const std::string doubt = DidYouMean(node->text, {std::string(kAsSet)}); !doubt.empty()) {
    map.problems().Error(node->place, map.KeyOf("happened"),
                         "'" + node->text + "' is none" + doubt + "; " + std::string(kReachedHelp));
    return;
  }
  const std::vector<LocatedText> texts = map.Texts("happened");
  for (const LocatedText& text : texts) {
    auto condition = ReadCondition(text, Reads::kAnswer, map.problems());
    if (!condition) continue;
    if (condition->op == Condition::Op::kExists) {
      map.problems().Error(text.place, text.key,
                           "what stands there may have stood there before: say what it is by then, "
                           "such as " +
                               condition->left.text + " != null");
    } else if (condition->left.source != Selector::Source::kAnswerBody) {
      map.problems().Error(text.place, text.key, std::string(kReachedHelp));
    } else {
      rule.reached.push_back(std::move(*condition));
    }
  }
}

// `settle: { request: before }`: the state of what a write changes, compared with what it was.
bool AsksBefore(const YamlNode& settle) {
  const YamlNode* const request =
      settle.kind == YamlNode::Kind::kMap ? settle.Find("request") : nullptr;
  return request != nullptr && request->kind == YamlNode::Kind::kScalar && request->text == kBefore;
}

// Whether that is what was meant; told then.
bool MisspellsBefore(const YamlNode& settle, MapReader& tool) {
  const YamlNode* const request =
      settle.kind == YamlNode::Kind::kMap ? settle.Find("request") : nullptr;
  if (request == nullptr || request->kind != YamlNode::Kind::kScalar) return false;
  const std::string doubt = DidYouMean(request->text, {std::string(kBefore)});
  if (doubt.empty()) return false;
  tool.problems().Error(request->place, tool.KeyOf("settle") + ".request",
                        "'" + request->text + "' is no request" + doubt);
  return true;
}

std::optional<SettleRule> ReadStateAsked(MapReader& tool, const std::optional<BeforeRule>& before) {
  MapReader map(*tool.Get("settle"), tool.KeyOf("settle"), tool.problems());
  (void)map.Get("request");
  SettleRule rule;
  rule.asks_before = true;
  if (before) rule.request = before->request;
  RequestTemplate own;
  ReadRequestHeaders(map, own);
  for (auto& [name, value] : own.headers) {
    std::erase_if(rule.request.headers,
                  [&](const auto& field) { return EqualsIgnoreCase(field.first, name); });
    rule.request.headers.emplace_back(name, std::move(value));
  }
  for (const std::string_view word : kAsking) {
    if (map.Get(word) == nullptr) continue;
    map.problems().Error(map.PlaceOf(word), map.KeyOf(word),
                         "the request is that of `before`, as it stands there");
  }
  ReadReached(map, rule);
  rule.absent = ReadConditions(map, "absent", Reads::kAnswer);
  rule.absent_after = map.Duration("absent_after", Millis(0));
  map.Finish();
  if (before) return rule;
  if (!tool.Has("before")) {
    map.problems().Error(map.PlaceOf("request"), map.KeyOf("request"),
                         "asks what `before` asks, and there is none: before: { request: \"GET "
                         "/payments/{path.id}\", keep: [ body#/status ] }");
  }
  return std::nullopt;
}

}  // namespace

std::optional<SettleRule> ReadSettle(MapReader& tool, const Speaks& speaks,
                                     const std::optional<BeforeRule>& before) {
  const YamlNode* node = tool.Get("settle");
  if (node == nullptr || SaysNone(*node)) return std::nullopt;
  if (AsksBefore(*node)) return ReadStateAsked(tool, before);
  if (MisspellsBefore(*node, tool)) return std::nullopt;
  MapReader map(*node, tool.KeyOf("settle"), tool.problems(),
                "{ request: \"GET /orders?client_ref={body#/client_ref}\", happened: "
                "answer.body#/items/0/id }, or none if nothing can ask");
  auto request = ReadOwnRequest(map, speaks, Effect::kRead,
                                "a read that shows whether the write took effect: request: "
                                "\"GET /orders?client_ref={body#/client_ref}\"");
  SettleRule rule;
  if (request) rule.request = std::move(*request);
  const bool is_safe = map.Bool("safe").value_or(false);
  ReadRequestBody(map, rule.request);
  if (request) CheckAsks(map, is_safe, rule.request);
  rule.absent = ReadConditions(map, "absent", Reads::kAnswer);
  rule.absent_after = map.Duration("absent_after", Millis(0));
  ReadMark(map, speaks, rule);
  ReadHappened(map, rule);
  map.Finish();
  if (!request || rule.happened.text.empty()) return std::nullopt;
  return rule;
}

namespace {

// A monitor that the answer names.
std::optional<SettledByRule> ReadSettledAt(MapReader& map, const Speaks& speaks) {
  const std::string text = map.Text("at").value_or("");
  auto at =
      ReadSelector({text, map.PlaceOf("at"), map.KeyOf("at")}, Reads::kAnswer, map.problems());
  const bool is_link = at && at->source != Selector::Source::kAnswerStatus;
  if (at && (!is_link || speaks.kind != Speaks::Kind::kHttp)) {
    map.problems().Error(map.PlaceOf("at"), map.KeyOf("at"),
                         is_link ? "is for paths; of a call by name say what asks: call, graphql"
                                 : "accepted: where the answer has the link to ask at: "
                                   "answer.header.Operation-Location, answer.body#/status_url");
    return std::nullopt;
  }
  auto request = ParseRequestLine("GET /");
  request->source = "GET where " + text + " leads";
  ReadRequestHeaders(map, *request);
  auto rule = ReadQuestion(map, std::move(*request));
  if (rule && at) rule->at = std::move(at);
  return rule && rule->at ? std::move(rule) : std::nullopt;
}

}  // namespace

std::optional<SettledByRule> ReadSettledBy(MapReader& tool, const Speaks& speaks) {
  const YamlNode* node = tool.Get("settled_by");
  if (node == nullptr) return std::nullopt;
  MapReader map(*node, tool.KeyOf("settled_by"), tool.problems(), kQuestionShape);
  if (map.Get("at") != nullptr) return ReadSettledAt(map, speaks);
  return ReadQuestion(map, ReadOwnRequest(map, speaks, Effect::kRead, kQuestionHelp));
}

std::optional<SettledByRule> ReadUndoSettledBy(MapReader& undo, const Speaks& speaks) {
  const YamlNode* node = undo.Get("settled_by");
  if (node == nullptr) return std::nullopt;
  const YamlNode* const line = node->kind == YamlNode::Kind::kMap ? node->Find("request") : nullptr;
  const bool is_bare = line != nullptr && speaks.kind == Speaks::Kind::kHttp &&
                       line->kind == YamlNode::Kind::kScalar && line->text == "GET";
  if (!is_bare) return ReadSettledBy(undo, speaks);
  MapReader map(*node, undo.KeyOf("settled_by"), undo.problems());
  (void)map.Get("request");
  (void)map.Get("headers");
  auto request = ParseRequestLine("GET /");
  request->source = "GET where the undo was sent";
  ReadRequestHeaders(map, *request);
  auto rule = ReadQuestion(map, std::move(*request));
  if (rule) rule->at_its_path = true;
  return rule;
}

}  // namespace recourse
