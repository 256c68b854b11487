// What a backend knows of the keys of writes: where they stand, their form, and what they promise.
#include <array>

#include "policy/graphql/document.h"
#include "policy/language/load_rules.h"
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

void ReadPlace(MapReader& map, std::string_view word, RequestPlace& at) {
  const auto text = map.Text(word);
  if (!text) return;
  const bool is_name = word == "key_header";
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
                         : place.error().detail();
    why += kPlaceHelp;
  }
  map.problems().Error(map.PlaceOf(word), map.KeyOf(word), std::move(why));
}

void ReadForm(MapReader& map, KeyRule& rule) {
  const auto text = map.Text("key_form");
  if (!text) return;
  if (const auto form = ParseKeyForm(*text)) {
    rule.form = *form;
  } else {
    map.problems().Error(map.PlaceOf("key_form"), map.KeyOf("key_form"),
                         std::string(form.error().detail()));
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

std::optional<KeyRule> ReadKeyRule(MapReader& map, const KeyRule& base) {
  static constexpr std::pair<std::string_view, bool> kScopes[] = {{"credentials", false},
                                                                  {"account", true}};
  static constexpr std::pair<std::string_view, bool> kAnswers[] = {{"first", false},
                                                                   {"latest", true}};
  static constexpr std::pair<std::string_view, bool> kAfter[] = {{"same", false}, {"new", true}};
  KeyRule rule = base;
  ReadPlace(map, "key_at", rule.at);
  ReadForm(map, rule);
  rule.lives = map.Duration("key_lives", Millis(0)).value_or(rule.lives);
  rule.is_accounts = map.OneOf("key_scope", kScopes).value_or(rule.is_accounts);
  if (auto hit = ReadConditions(map, "key_hit", Reads::kAnswer); !hit.empty()) {
    rule.hit = std::move(hit);
  }
  rule.answers_latest = map.OneOf("key_answer", kAnswers).value_or(rule.answers_latest);
  rule.new_after_failure = map.OneOf("key_after_failure", kAfter).value_or(rule.new_after_failure);
  bool is_any = map.Has("key_at");
  for (const std::string_view word : kPromises) {
    if (!map.Has(word)) continue;
    is_any = true;
    if (rule.at.exists()) continue;
    map.problems().Error(
        map.PlaceOf(word), map.KeyOf(word),
        word == "key_lives" ? "says how long the key in `key_header` is honoured, and there is none"
        : word == "key_scope" ? "says for whom the key in `key_header` is remembered, and there is "
                                "none"
                              : "is about the key at `key_at`, and there is none");
  }
  return is_any ? std::optional(std::move(rule)) : std::nullopt;
}

KeyRule ReadBackendKey(MapReader& map) {
  KeyRule base;
  ReadPlace(map, "key_header", base.at);
  if (map.Has("key_header") && map.Has("key_at")) {
    map.problems().Error(map.PlaceOf("key_header"), map.KeyOf("key_header"),
                         "is short for `key_at: header:Name`; say one of them");
  }
  return ReadKeyRule(map, base).value_or(std::move(base));
}

std::optional<KeyRule> ReadUndoKey(MapReader& undo) {
  KeyRule rule;
  ReadPlace(undo, "key_at", rule.at);
  ReadForm(undo, rule);
  if (undo.Has("key_form") && !rule.at.exists()) {
    undo.problems().Error(undo.PlaceOf("key_form"), undo.KeyOf("key_form"),
                          "is about the key at `key_at`, and there is none");
  }
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
