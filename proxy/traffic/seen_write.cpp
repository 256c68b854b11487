#include "proxy/traffic/seen_write.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "filters/call/call_values.h"
#include "policy/explain/explain.h"
#include "policy/model/route_table.h"
#include "policy/model/route_tree.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json.h"

namespace recourse {
namespace {

using Kind = SeenWrite::Kind;

constexpr std::string_view kBodyPlace = "body#";
constexpr std::string_view kQueryPlace = "query.";
constexpr std::string_view kOtherPlaces = "(others)";
constexpr std::string_view kNoFields = "header fields are not kept";

std::string HashText(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

std::string Unescaped(std::string_view token) {
  std::string name;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const bool is_escape = token[i] == '~' && i + 1 < token.size();
    name += !is_escape ? token[i] : token[++i] == '1' ? '/' : '~';
  }
  return name;
}

// Puts the text at the pointer, below objects.
void PutAt(Json& root, std::string_view pointer, std::string text) {
  Json* at = &root;
  while (pointer.starts_with('/')) {
    pointer.remove_prefix(1);
    const auto end = std::min(pointer.find('/'), pointer.size());
    const std::string name = Unescaped(pointer.substr(0, end));
    pointer.remove_prefix(end);
    at->kind = Json::Kind::kObject;
    auto member = std::ranges::find(at->members, name, &Json::Member::first);
    if (member == at->members.end()) {
      at->members.push_back({name, {}});
      member = at->members.end() - 1;
    }
    at = &member->second;
  }
  at->kind = Json::Kind::kString;
  at->text = std::move(text);
}

// The arguments with a hash in place of each value.
struct HashedCall {
  Pairs query, captures;
  std::optional<Json> body;
  bool is_form = false;

  CallValues Values() const {
    CallValues values;
    values.path = &captures;
    values.query = &query;
    values.body = body ? &*body : nullptr;
    values.body_is_form = is_form;
    return values;
  }
};

HashedCall HashedOf(const Sighting& seen) {
  HashedCall call;
  for (const SeenValue& value : seen.query) {
    if (!value.place.starts_with(kQueryPlace)) continue;
    call.query.emplace_back(value.place.substr(kQueryPlace.size()), HashText(value.hash));
  }
  call.is_form = seen.form == SeenBody::kForm;
  const bool is_read = seen.form == SeenBody::kJson || call.is_form;
  if (!is_read) return call;
  call.body.emplace();
  call.body->kind = Json::Kind::kObject;
  for (const SeenValue& value : seen.body) {
    if (!value.place.starts_with(kBodyPlace)) continue;
    PutAt(*call.body, std::string_view(value.place).substr(kBodyPlace.size()),
          HashText(value.hash));
  }
  return call;
}

std::string FormText(const Pairs& pairs) {
  std::string text;
  for (const auto& [name, value] : pairs) {
    text += (text.empty() ? "" : "&") + PercentEncode(name) + "=" + PercentEncode(value);
  }
  return text;
}

ExplainedCall ExplainedOf(const Sighting& seen, const HashedCall& hashed, std::string path) {
  ExplainedCall call;
  call.method = seen.method;
  call.backend = seen.backend;
  if (!hashed.query.empty()) path += "?" + FormText(hashed.query);
  call.target = std::move(path);
  if (!hashed.body) return call;
  if (hashed.is_form) {
    Pairs pairs;
    for (const auto& [name, value] : hashed.body->members) pairs.emplace_back(name, value.text);
    call.headers.emplace_back("Content-Type", "application/x-www-form-urlencoded");
    call.body = FormText(pairs);
  } else {
    if (!seen.IsMcpCall()) call.headers.emplace_back("Content-Type", "application/json");
    call.body = CanonicalJson(*hashed.body);
  }
  return call;
}

bool HasOthers(const std::vector<SeenValue>& values) {
  return std::ranges::find(values, kOtherPlaces, &SeenValue::place) != values.end();
}

std::string_view WhyArgumentsUntold(const Sighting& seen) {
  if (seen.form == SeenBody::kOther) return "bodies that are neither JSON nor a form are not kept";
  if (HasOthers(seen.body) || HasOthers(seen.query)) return "of so many members not all are kept";
  return {};
}

// Why nobody knows what was there; empty: it is known, if only that nothing was.
std::string_view WhyUntold(const Selector& place, const Sighting& seen) {
  switch (place.source) {
    case Selector::Source::kPath:
      return {};
    case Selector::Source::kQuery:
      return HasOthers(seen.query) ? WhyArgumentsUntold(seen) : std::string_view();
    case Selector::Source::kBody:
      break;
    default:
      return kNoFields;
  }
  if (const auto why = WhyArgumentsUntold(seen); !why.empty()) return why;
  const std::string whole = std::string(kBodyPlace) + place.name;
  const bool is_within = std::ranges::any_of(seen.body, [&](const SeenValue& value) {
    return value.kind == ValueKind::kComposite && whole.starts_with(value.place + "/");
  });
  return is_within ? std::string_view("lists are kept as a whole") : std::string_view();
}

bool IsIgnored(const std::string& place, const Tool& tool) {
  return std::ranges::any_of(tool.ignore, [&](const std::string& pointer) {
    const std::string at = std::string(kBodyPlace) + pointer;
    return place == at || place.starts_with(at + "/");
  });
}

std::string ArgumentsOf(const Sighting& seen, const Tool& tool) {
  std::vector<std::string> parts;
  for (const auto* values : {&seen.query, &seen.body}) {
    for (const SeenValue& value : *values) {
      if (!IsIgnored(value.place, tool)) parts.push_back(value.place + "=" + HashText(value.hash));
    }
  }
  std::ranges::sort(parts);
  std::string text = seen.method + static_cast<char>(seen.form);
  for (const SeenSegment& segment : seen.path) text += "/" + HashText(segment.hash);
  for (const std::string& part : parts) text += "\n" + part;
  return text;
}

// The values at `identity`; a place that nobody knows makes it untold.
std::string IdentityOf(const Sighting& seen, const HashedCall& hashed, SeenWrite& made) {
  const CallValues values = hashed.Values();
  std::string text;
  for (const Selector& place : made.tool->identity) {
    if (const auto why = WhyUntold(place, seen); !why.empty()) {
      made.kind = Kind::kUntold;
      made.why = place.text + ": " + std::string(why);
      return {};
    }
    const auto value = Select(place, values);
    made.has_identity |= value.has_value();
    text += "\n" + place.text + "=" + (value ? CanonicalJson(*value) : "absent");
  }
  return text;
}

void ReadSeenScope(const Sighting& seen, const ScopeRule& rule, const HashedCall& hashed,
                   SeenWrite& made) {
  switch (rule.kind) {
    case ScopeRule::Kind::kTrace:
      if (seen.trace != 0) made.scope = "trace " + HashText(seen.trace);
      return;
    case ScopeRule::Kind::kCaller:
    case ScopeRule::Kind::kGlobal:
      return;
    case ScopeRule::Kind::kBody: {
      const Selector place{Selector::Source::kBody, rule.name, "body#" + rule.name};
      if (const auto value = Select(place, hashed.Values())) {
        made.scope = "value " + CanonicalJson(*value);
      } else {
        made.kind = Kind::kRefused;
        made.why = "key-required: nothing is at " + place.text + ", which is the scope";
      }
      return;
    }
    case ScopeRule::Kind::kSession:
    case ScopeRule::Kind::kHeader:
    case ScopeRule::Kind::kBaggage:
      made.kind = Kind::kUntold;
      made.why = "the scope: " + std::string(kNoFields);
  }
}

void ReadSeenKey(const Sighting& seen, const HashedCall& hashed, SeenWrite& made) {
  const Tool& tool = made.tool == nullptr ? UnlistedTool() : *made.tool;
  made.kind = Kind::kKeyed;
  made.arguments = ArgumentsOf(seen, tool);
  if (!tool.same_as.empty()) {
    made.kind = Kind::kUntold;
    made.why = "it is a door to another tool (same_as)";
    return;
  }
  const std::string identity = made.tool == nullptr ? "" : IdentityOf(seen, hashed, made);
  if (made.kind != Kind::kKeyed) return;
  made.is_named = seen.agent_key != 0 && (!made.has_identity || tool.agent_key == AgentKey::kWins);
  const bool is_global = tool.scope.kind == ScopeRule::Kind::kGlobal;
  made.intent = (is_global ? std::string() : HashText(seen.caller)) + "\n" + made.name;
  if (seen.IsMcpCall()) made.intent += "\n" + seen.path.front().word;
  if (made.is_named) {
    made.intent += "\nnamed " + HashText(seen.agent_key);
    return;
  }
  if (tool.trace_required && seen.trace == 0) {
    made.kind = Kind::kRefused;
    made.why = "key-required: it has neither a trace nor a key";
    return;
  }
  const std::string_view why = WhyArgumentsUntold(seen);
  if (!made.has_identity && !why.empty()) {
    made.kind = Kind::kUntold;
    made.why = why;
    return;
  }
  made.intent += made.has_identity ? identity : "\nargs " + made.arguments;
  ReadSeenScope(seen, tool.scope, hashed, made);
}

bool Compares(const std::vector<Condition>& conditions) {
  return std::ranges::any_of(conditions,
                             [](const Condition& one) { return one.op != Condition::Op::kExists; });
}

}  // namespace

SeenWriteReader::SeenWriteReader(const Policy& policy, const SeenHash& hash) : policy_(policy) {
  literals_.try_emplace(hash(""), "");
  for (const Tool& tool : policy.tools) {
    for (const std::string& pattern : tool.patterns) {
      for (const auto& segment : ParsePattern(pattern).segments) {
        if (!segment.is_capture) literals_.try_emplace(hash(segment.text), segment.text);
      }
    }
  }
}

std::string SeenWriteReader::PathOf(const Sighting& seen) const {
  if (seen.IsMcpCall()) return seen.path.empty() ? std::string() : seen.path.front().word;
  std::string path;
  for (const SeenSegment& segment : seen.path) {
    const auto literal = literals_.find(segment.hash);
    path += "/" + (!segment.word.empty()        ? segment.word
                   : literal != literals_.end() ? literal->second
                                                : HashText(segment.hash));
  }
  return path.empty() ? "/" : path;
}

SeenWrite SeenWriteReader::Read(const Sighting& seen) const {
  SeenWrite made;
  HashedCall hashed = HashedOf(seen);
  const std::string path = PathOf(seen);
  const Explanation explained = Explain(policy_, ExplainedOf(seen, hashed, path));
  made.tool = explained.tool;
  made.name = explained.tool != nullptr ? explained.tool->name : "unlisted." + seen.backend;
  made.place = seen.backend;
  for (const SeenSegment& segment : seen.path) made.place += "/" + HashText(segment.hash);
  const Backend* const backend = explained.backend;
  if (backend != nullptr && backend->is_graphql() && seen.method == "POST") {
    made.kind = Kind::kUntold;
    made.why = "documents of GraphQL are not kept";
    return made;
  }
  const Tool* const tool = made.tool;
  const bool is_compared = tool != nullptr && (Compares(tool->deny) || Compares(tool->allow));
  if (!explained.refused.empty()) {
    made.kind = is_compared ? Kind::kUntold : Kind::kRefused;
    made.why = is_compared ? "`deny` or `allow` compares values that are not kept"
                           : explained.refused + ": " + explained.reason;
    return made;
  }
  if (explained.effect == Effect::kRead) return made;
  if (explained.key.empty()) {
    made.kind = Kind::kLogged;
    return made;
  }
  if (!seen.IsMcpCall()) {
    std::string scratch;
    const auto match = policy_.routes->Match(*backend, seen.method, path, scratch);
    for (std::size_t i = 0; match && i < match->capture_count; ++i) {
      hashed.captures.emplace_back(match->captures[i].name, match->captures[i].value);
    }
  }
  made.asks = tool != nullptr && tool->approval && !tool->approval->only_suspected &&
              tool->approval->when.empty();
  ReadSeenKey(seen, hashed, made);
  return made;
}

}  // namespace recourse
