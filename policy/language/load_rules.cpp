#include "policy/language/load_rules.h"

#include <algorithm>

#include "policy/language/place_problem.h"
#include "policy/language/policy_builder.h"
#include "policy/model/principal.h"

namespace recourse {
namespace {

using Source = Selector::Source;

bool IsAnswer(Source source) {
  return source == Source::kAnswerBody || source == Source::kAnswerHeader ||
         source == Source::kAnswerStatus;
}
bool IsBefore(Source source) {
  return source == Source::kBeforeBody || source == Source::kBeforeHeader;
}
bool IsRequest(Source source) {
  return source == Source::kBody || source == Source::kPath || source == Source::kQuery ||
         source == Source::kHeader;
}

std::string WrongSource(const Selector& place, Reads reads) {
  const Source source = place.source;
  const std::string accepted = "; accepted: " + std::string(PlacesOf(reads));
  if (reads == Reads::kRequest && !IsRequest(source)) {
    return "only the request is known here" + accepted;
  }
  if (reads == Reads::kRequest && source == Source::kHeader) {
    return WhyUnseen(place.text, place.name);
  }
  if (reads == Reads::kAnswer && !IsAnswer(source)) {
    const bool has_twin = source == Source::kBody || source == Source::kHeader;
    return "this looks at the answer" +
           (has_twin ? ", did you mean 'answer." + place.text + "'?" : std::string()) + accepted;
  }
  if (reads == Reads::kRequestOrAnswer && !IsAnswer(source) && !IsRequest(source)) {
    return "accepted: a place in the answer (answer.body#/id, answer.header.Location) or in the "
           "request";
  }
  if (reads == Reads::kAlsoBefore && !IsAnswer(source) && !IsRequest(source) && !IsBefore(source)) {
    return "accepted: a place in the answer, in the request, or in what `before` keeps "
           "(before.body#/status)";
  }
  return {};
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
    problems.Error(member.value.place, key, TemplateProblem(*value, text.error()));
    return;
  }
  if (!IsFieldValue(*value)) {
    problems.Error(member.value.place, key, "a field value has no line breaks or controls");
  }
  const bool has_placeholder = std::any_of(
      text->begin(), text->end(), [](const auto& piece) { return piece.selector.has_value(); });
  if (IsCredentialField(member.name) && !has_placeholder) {
    problems.Error(member.value.place, key,
                   "a secret does not belong in this file; pass the agent's own on (\"{header." +
                       member.name + "}\"), or give an undo `credentials` from a file");
  }
  request.headers.emplace_back(member.name, std::move(*text));
}

// `when: suspected` takes no further condition.
bool IsOnlySuspected(const YamlNode* when) {
  if (when != nullptr && when->items.size() == 1) when = &when->items.front();
  return when != nullptr && when->text == "suspected";
}

// A comparison takes what stands there, braces and all.
void WarnAboutPlaceholder(const LocatedText& text, const Condition& condition, Problems& problems) {
  if (condition.right.kind != Json::Kind::kString) return;
  const auto pieces = ParseTemplateText(condition.right.text);
  const bool has_one = pieces && std::ranges::any_of(*pieces, [](const auto& piece) {
                         return piece.selector.has_value();
                       });
  if (!has_one) return;
  problems.Warn(text.place, text.key,
                "'" + condition.text + "' compares with the text " + condition.right.text +
                    " as it stands, and will hardly ever hold: conditions have no placeholders");
}

// What a list shows of a call: text and placeholders of the request. A credential has no place in
// it, whoever may look.
void ReadSummary(MapReader& approval, ApprovalRule& rule) {
  const auto text = approval.Text("summary");
  if (!text) return;
  const auto refuse = [&](const std::string& problem) {
    approval.problems().Error(approval.PlaceOf("summary"), approval.KeyOf("summary"), problem);
  };
  auto pieces = ParseTemplateText(*text);
  if (!pieces) return refuse(std::string(pieces.error().detail()));
  for (const RequestTemplate::Piece& piece : *pieces) {
    if (!piece.selector) continue;
    const Selector& place = *piece.selector;
    if (const auto wrong = WrongSource(place, Reads::kRequest); !wrong.empty()) {
      return refuse(std::string(wrong));
    }
    if (place.source == Source::kHeader &&
        (IsCredentialField(place.name) || IsPrincipalField(place.name))) {
      return refuse(place.text + " carries a credential, which is shown to nobody");
    }
  }
  rule.summary = std::move(*pieces);
  rule.summary_text = *text;
}

}  // namespace

std::optional<Selector> ReadSelector(const LocatedText& text, Reads reads, Problems& problems) {
  auto selector = ParseSelector(text.text);
  if (!selector) {
    problems.Error(text.place, text.key, PlaceProblem(text.text, reads));
    return std::nullopt;
  }
  if (const auto wrong = WrongSource(*selector, reads); !wrong.empty()) {
    problems.Error(text.place, text.key, wrong);
    return std::nullopt;
  }
  WarnAboutPointer(text, *selector, problems);
  return std::move(*selector);
}

std::optional<Condition> ReadCondition(const LocatedText& text, Reads reads, Problems& problems) {
  auto condition = ParseCondition(text.text);
  if (!condition) {
    problems.Error(text.place, text.key, ConditionProblem(text, reads, condition.error()));
    return std::nullopt;
  }
  if (const auto wrong = WrongSource(condition->left, reads); !wrong.empty()) {
    problems.Error(text.place, text.key, wrong);
    return std::nullopt;
  }
  WarnAboutPointer(text, condition->left, problems);
  WarnAboutPlaceholder(text, *condition, problems);
  if (const auto why = WhyNeverEvaluated(*condition); !why.empty()) {
    problems.Warn(text.place, text.key,
                  "'" + condition->text + "' can never be evaluated: " + std::string(why));
  }
  return std::move(*condition);
}

namespace {

// What is two values at once. `later` is one of a list of which all must hold.
void WarnAboutContradiction(const LocatedText& text, const std::vector<Condition>& before,
                            const Condition& later, Problems& problems) {
  if (later.op != Condition::Op::kEqual) return;
  for (const Condition& one : before) {
    const bool is_same = one.op == Condition::Op::kEqual && one.left.text == later.left.text;
    if (!is_same || CanonicalJson(one.right) == CanonicalJson(later.right)) continue;
    problems.Warn(text.place, text.key,
                  "'" + later.text + "' never holds where '" + one.text +
                      "' does, and of this list all must hold: it never will");
    return;
  }
}

}  // namespace

std::vector<Condition> ReadConditions(MapReader& map, std::string_view name, Reads reads) {
  std::vector<Condition> conditions;
  const YamlNode* const node = map.node().Find(name);
  const bool is_word = node != nullptr && node->kind == YamlNode::Kind::kScalar &&
                       !node->is_quoted && !YamlTrap(node->text).empty();
  if (is_word || (node != nullptr && node->kind == YamlNode::Kind::kMap)) {
    (void)map.Get(name);
    const std::string place =
        reads == Reads::kRequest ? "body#/amount > 1000" : "answer.body#/status == \"done\"";
    map.problems().Error(node->place, map.KeyOf(name),
                         "accepted: a condition such as " + place + ", or a list of them");
    return conditions;
  }
  for (const LocatedText& text : map.Texts(name)) {
    if (auto condition = ReadCondition(text, reads, map.problems())) {
      if (NeedsAll(map.KeyOf(name))) {
        WarnAboutContradiction(text, conditions, *condition, map.problems());
      }
      conditions.push_back(std::move(*condition));
    }
  }
  return conditions;
}

StatusSet ReadStatuses(MapReader& map, std::string_view name) {
  std::vector<std::string> items;
  for (LocatedText& item : map.Texts(name)) {
    if (auto one = ParseStatuses({item.text}); !one) {
      const bool is_condition = item.text.starts_with("answer.");
      map.problems().Error(
          item.place, item.key,
          StatusProblem(item.text, one.error()) +
              (is_condition ? "; conditions on the answer are `failed_when`" : ""));
    } else {
      items.push_back(std::move(item.text));
    }
  }
  return ParseStatuses(items).value_or(StatusSet());
}

void ReadRequestHeaders(MapReader& map, RequestTemplate& request) {
  const YamlNode* headers = map.Get("headers");
  if (headers == nullptr) return;
  MapReader fields(*headers, map.KeyOf("headers"), map.problems());
  for (const auto& member : headers->members) {
    ReadHeader(member, fields.KeyOf(member.name), request, map.problems());
  }
}

namespace {

// Words of the other protocol. False: they were refused.
bool RefuseForeignWords(MapReader& map, const Speaks& speaks, std::string_view help) {
  const auto refuse = [&](std::string_view word, std::string message) {
    if (map.Get(word) == nullptr) return true;
    map.problems().Error(map.PlaceOf(word), map.KeyOf(word), std::move(message));
    return false;
  };
  if (speaks.kind == Speaks::Kind::kGraphql) {
    bool is_good = true;
    for (const std::string_view word : {"request", "call", "arguments"}) {
      const bool is_absent =
          refuse(word,
                 "is for other servers; send a GraphQL server graphql: \"mutation($id: ID!) { "
                 "issueDelete(id: $id) { success } }\", variables: { id: \"{external_ref}\" }");
      is_good = is_good && is_absent;
    }
    return is_good;
  }
  for (const std::string_view word : {"graphql", "variables"}) {
    if (!refuse(word, "is for tools of a GraphQL server (match: mutation ..)")) return false;
  }
  if (speaks.kind == Speaks::Kind::kMcp || map.Has("call")) {
    if (!refuse("request",
                "is for tools that are matched by a path; name a tool of the same MCP server: { "
                "call: cancel_order, arguments: { id: \"{external_ref}\" } }")) {
      return false;
    }
  }
  if (speaks.kind != Speaks::Kind::kHttp) return true;
  const bool has_call =
      !refuse("call", "is for tools of an MCP server (match: tools/call ..); accepted: " +
                          std::string(help));
  const bool has_arguments = !refuse("arguments", "are those of a `call` of an MCP server's tool");
  return !has_call && !has_arguments;
}

}  // namespace

std::optional<RequestTemplate> ReadOwnRequest(MapReader& map, const Speaks& speaks, Effect effect,
                                              std::string_view help) {
  map.Get("headers");  // a word of all
  if (!RefuseForeignWords(map, speaks, help)) return std::nullopt;
  if (speaks.kind == Speaks::Kind::kGraphql) return ReadGraphqlOwn(map, speaks.endpoint, effect);
  const bool is_call = map.Has("call");
  if (is_call || speaks.kind == Speaks::Kind::kMcp) return ReadMcpCall(map, speaks.endpoint);
  const YamlNode* line = map.Need("request", help);
  if (line == nullptr) return std::nullopt;
  const auto text = ReadText(*line, map.KeyOf("request"), map.problems());
  if (!text) return std::nullopt;
  auto request = ParseRequestLine(*text);
  if (!request) {
    map.problems().Error(line->place, map.KeyOf("request"),
                         TemplateProblem(*text, request.error()));
    return std::nullopt;
  }
  if (const std::string doubt = MethodDoubt(request->method); !doubt.empty()) {
    map.problems().Warn(line->place, map.KeyOf("request"),
                        request->method + " is no usual method" + doubt);
  }
  ReadRequestHeaders(map, *request);
  return std::move(*request);
}

std::optional<ScopeRule> ParseScope(std::string_view text) {
  using Kind = ScopeRule::Kind;
  static constexpr std::pair<std::string_view, Kind> kWords[] = {{"trace", Kind::kTrace},
                                                                 {"session", Kind::kSession},
                                                                 {"caller", Kind::kCaller},
                                                                 {"global", Kind::kGlobal}};
  for (const auto& [word, kind] : kWords) {
    if (text == word) return ScopeRule{kind, {}};
  }
  if (text.starts_with("header:") && IsToken(text.substr(7))) {
    return ScopeRule{Kind::kHeader, std::string(text.substr(7))};
  }
  if (text.starts_with("baggage:") && IsToken(text.substr(8))) {
    return ScopeRule{Kind::kBaggage, std::string(text.substr(8))};
  }
  if (text.starts_with("body#") && text.size() > 5 && IsJsonPointer(text.substr(5))) {
    return ScopeRule{Kind::kBody, std::string(text.substr(5))};
  }
  return std::nullopt;
}

std::optional<int> ReadCountUpTo(MapReader& map, std::string_view name, int most) {
  const auto count = map.Count(name, static_cast<std::uint64_t>(most));
  return count ? std::optional(static_cast<int>(*count)) : std::nullopt;
}

std::optional<ApprovalRule> ReadApproval(MapReader& tool, TlsFiles files,
                                         std::vector<LocatedText>& approvers) {
  const YamlNode* node = tool.Get("approval");
  if (node == nullptr) return std::nullopt;
  MapReader map(*node, tool.KeyOf("approval"), tool.problems(), "{ by: [ team-support ] }");
  ApprovalRule rule;
  map.Need("by", "who may approve: by: [ team-support ]");
  for (LocatedText& approver : map.Texts("by")) {
    rule.by.push_back(approver.text);
    approvers.push_back(std::move(approver));
  }
  rule.expires = map.Duration("expires", Millis(1)).value_or(rule.expires);
  rule.only_suspected = IsOnlySuspected(map.Get("when"));
  if (!rule.only_suspected) rule.when = ReadConditions(map, "when", Reads::kRequest);
  rule.needs = ReadCountUpTo(map, "needs", limits::kApproversMax).value_or(rule.needs);
  static constexpr std::pair<std::string_view, ApprovalAnswer> kAnswers[] = {
      {"202", ApprovalAnswer::kAccepted}, {"409", ApprovalAnswer::kConflict}};
  rule.answer = map.OneOf("answer", kAnswers).value_or(rule.answer);
  rule.hold = map.Duration("hold", Millis(0));
  rule.should_retry = map.Bool("should_retry");
  if (rule.should_retry && rule.answer == ApprovalAnswer::kAccepted) {
    map.problems().Error(map.PlaceOf("should_retry"), map.KeyOf("should_retry"),
                         "is for answer: 409 only; a 202 is never retried");
  }
  rule.secrets = ReadCredentials(map, files, Sources::kFiles,
                                 "; without it the call is sent with the agent's own credentials, "
                                 "kept sealed");
  ReadSummary(map, rule);
  map.Finish();
  return rule;
}

}  // namespace recourse
