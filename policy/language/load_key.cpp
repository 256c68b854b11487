// What a backend knows of the keys of writes: where they stand, their form, and what they promise.
#include <algorithm>
#include <array>
#include <span>

#include "policy/graphql/document.h"
#include "policy/language/load_rules.h"
#include "policy/language/place_problem.h"
#include "policy/language/policy_builder.h"

namespace recourse {
namespace {

constexpr std::array<std::string_view, 6> kPromises{"key_form", "key_lives",  "key_scope",
                                                    "key_hit",  "key_answer", "key_after_failure"};

constexpr std::string_view kHeaderHelp =
    "accepted: the name of a header field that carries a key, such as Idempotency-Key";
constexpr std::string_view kPlaceHelp =
    "; accepted: header:Idempotency-Key, body#/transactionId, query.requestId, of GraphQL "
    "variables#/id or document@idempotent(key), or none";

// What an agent writes there is about the body, not about the intent.
bool IsOfBody(std::string_view field) { return ToLower(field).starts_with("content-"); }

std::string WhyNoPlace(const std::string& text, const Error& error) {
  std::string meant = PlaceMeant(text, Reads::kRequest);
  if (!meant.starts_with("body#") && !meant.starts_with("query.")) meant.clear();
  // One with a sign in it is hardly another word misspelled.
  if (meant.empty() && IsToken(text) && text.contains('-')) meant = "header:" + text;
  const std::string why(error.detail());
  return meant.empty() ? why : why + ", did you mean '" + meant + "'?";
}

void ReadPlace(MapReader& map, std::string_view word, bool has_variables, RequestPlace& at) {
  const auto text = map.Text(word);
  if (!text) return;
  const bool is_name = word == "key_header";
  if (!is_name && NamesVariables(*text) && !has_variables) {
    map.problems().Error(map.PlaceOf(word), map.KeyOf(word), NoVariables(*text));
    return;
  }
  const auto place = ParseRequestPlace(is_name ? "header:" + *text : *text);
  const bool is_reserved = place && place->is_field() && IsReservedHeader(place->name);
  const bool is_taken =
      place && place->is_field() && (IsCredentialField(place->name) || IsOfBody(place->name));
  const bool is_nameless = place && place->is_in_document() &&
                           !(IsGraphqlName(place->name) && IsGraphqlName(place->argument));
  if (place && !is_reserved && !is_taken && !is_nameless) {
    at = *place;
    return;
  }
  std::string why(kHeaderHelp);
  if (!is_name) {
    why = "'" + *text + "': ";
    why += is_reserved   ? "the field is about framing or routing"
           : is_taken    ? "the field has a meaning of its own, and its value is no key"
           : is_nameless ? "a directive and its argument have names"
           : place       ? std::string()
                         : WhyNoPlace(*text, place.error());
    why += kPlaceHelp;
  }
  map.problems().Error(map.PlaceOf(word), map.KeyOf(word), std::move(why));
}

// "'UUID' is none, did you mean 'uuid'?; accepted: ..."
std::string FormProblem(const std::string& text, const Error& error) {
  const auto colon = std::min(text.find(':'), text.size());
  std::string meant =
      NearestWord(ToLower(text.substr(0, colon)), {"uuid", "hex", "alnum", "base32hex"});
  if (meant == "hex") meant += ":64";
  if (meant == "alnum" || meant == "base32hex") meant += text.substr(colon);
  const std::string detail(error.detail());
  if (meant == text || !ParseKeyForm(meant)) return "'" + text + "': " + detail;
  return "'" + text + "' is none, did you mean '" + meant + "'?; " + detail;
}

void ReadForm(MapReader& map, KeyRule& rule) {
  const auto text = map.Text("key_form");
  if (!text) return;
  if (const auto form = ParseKeyForm(*text)) {
    rule.form = *form;
  } else {
    map.problems().Misspelled(map.KeyOf("key_form"));
    map.problems().Error(map.PlaceOf("key_form"), map.KeyOf("key_form"),
                         FormProblem(*text, form.error()));
  }
}

std::string_view MeaningOf(std::string_view promise) {
  if (promise == "key_lives") return "says how long the key at `key_at` is honoured";
  if (promise == "key_scope") return "says for whom the key at `key_at` is remembered";
  return "is about the key at `key_at`";
}

// A place that is wrong, or whose word is, is an error of its own.
bool IsPlaceMisspelled(const MapReader& map) {
  return map.Has("key_at") || map.Has("key_header") ||
         std::ranges::any_of(map.node().members, [](const YamlNode::Member& member) {
           return std::ranges::find(kPromises, member.name) == kPromises.end() &&
                  !NearestWord(member.name, {"key_at", "key_header"}).empty();
         });
}

// One that tells of a key where none goes: told of the first of them.
void CheckHasKey(MapReader& map, const KeyRule& rule, std::span<const std::string_view> promises) {
  if (rule.at.exists() || IsPlaceMisspelled(map)) return;
  for (const std::string_view word : promises) {
    if (!map.Has(word) || map.problems().IsMisspelled(map.KeyOf(word))) continue;
    map.problems().Error(map.PlaceOf(word), map.KeyOf(word),
                         std::string(MeaningOf(word)) +
                             ", and there is none; say where it goes: key_at: "
                             "header:Idempotency-Key, body#/transactionId or query.requestId");
    return;
  }
}

constexpr std::string_view kSameAsHelp =
    "accepted: { tool: issues.create, when: 'body#/method == \"create\"', identity: [ body#/owner, "
    "body#/title ] }, or a list of these";

std::optional<SameAsRule> ReadSameAsRule(MapReader& map) {
  map.Need("tool", "the tool whose calls these are repeats of");
  map.Need("identity",
           "where this door has what that tool's identity names, in the same order: [ body#/owner, "
           "body#/title ]");
  SameAsRule rule;
  rule.tool = map.Text("tool").value_or("");
  rule.when = ReadConditions(map, "when", Reads::kRequest);
  for (const LocatedText& item : map.Texts("identity")) {
    auto place = ReadSelector(item, Reads::kRequest, map.problems());
    if (place) rule.identity.push_back(std::move(*place));
  }
  map.Finish();
  if (rule.tool.empty() || rule.identity.empty()) return std::nullopt;
  return rule;
}

}  // namespace

std::optional<KeyRule> ReadKeyRule(MapReader& map, const KeyRule& base, bool has_variables) {
  static constexpr std::pair<std::string_view, bool> kScopes[] = {{"credentials", false},
                                                                  {"account", true}};
  static constexpr std::pair<std::string_view, bool> kAnswers[] = {{"first", false},
                                                                   {"latest", true}};
  static constexpr std::pair<std::string_view, bool> kAfter[] = {{"same", false}, {"new", true}};
  KeyRule rule = base;
  ReadPlace(map, "key_at", has_variables, rule.at);
  ReadForm(map, rule);
  rule.lives = map.Duration("key_lives", Millis(0)).value_or(rule.lives);
  rule.is_accounts = map.OneOf("key_scope", kScopes).value_or(rule.is_accounts);
  if (auto hit = ReadConditions(map, "key_hit", Reads::kAnswer); !hit.empty()) {
    rule.hit = std::move(hit);
  }
  rule.answers_latest = map.OneOf("key_answer", kAnswers).value_or(rule.answers_latest);
  rule.new_after_failure = map.OneOf("key_after_failure", kAfter).value_or(rule.new_after_failure);
  CheckHasKey(map, rule, kPromises);
  const auto has = [&map](std::string_view word) { return map.Has(word); };
  const bool is_any = map.Has("key_at") || std::ranges::any_of(kPromises, has);
  return is_any ? std::optional(std::move(rule)) : std::nullopt;
}

KeyRule ReadBackendKey(MapReader& map, bool has_variables) {
  KeyRule base;
  ReadPlace(map, "key_header", has_variables, base.at);
  if (map.Has("key_header") && map.Has("key_at")) {
    map.problems().Error(map.PlaceOf("key_header"), map.KeyOf("key_header"),
                         "is short for `key_at: header:Name`; say one of them");
  }
  return ReadKeyRule(map, base, has_variables).value_or(std::move(base));
}

std::optional<KeyRule> ReadUndoKey(MapReader& undo, bool has_variables) {
  KeyRule rule;
  ReadPlace(undo, "key_at", has_variables, rule.at);
  ReadForm(undo, rule);
  CheckHasKey(undo, rule, std::span(kPromises).first(1));
  return undo.Has("key_at") ? std::optional(std::move(rule)) : std::nullopt;
}

std::vector<SameAsRule> ReadSameAs(MapReader& tool) {
  const YamlNode* const node = tool.Get("same_as");
  std::vector<SameAsRule> rules;
  if (node == nullptr) return rules;
  const std::string key = tool.KeyOf("same_as");
  const bool is_list = node->kind == YamlNode::Kind::kList;
  if (node->kind == YamlNode::Kind::kScalar || (is_list && node->items.empty())) {
    tool.problems().Error(node->place, key, std::string(kSameAsHelp));
    return rules;
  }
  const auto add = [&](const YamlNode& one, const std::string& at) {
    MapReader map(one, at, tool.problems());
    if (auto rule = ReadSameAsRule(map)) rules.push_back(std::move(*rule));
  };
  if (!is_list) add(*node, key);
  for (std::size_t i = 0; is_list && i < node->items.size(); ++i) {
    add(node->items[i], key + '[' + std::to_string(i) + ']');
  }
  return rules;
}

}  // namespace recourse
