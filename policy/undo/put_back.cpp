#include "policy/undo/put_back.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "policy/graphql/operation.h"
#include "policy/undo/call_sets.h"
#include "policy/undo/undo_choice.h"
#include "policy/uri/path.h"
#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

using Node = RequestTemplate::Node;
using Source = Selector::Source;

bool IsPlaceIn(std::string_view inner, std::string_view outer) {
  return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
}

std::string TokenOf(std::string_view name) { return '/' + PointerToken(name); }

void AddLeaves(const Json& value, const std::string& at, const Snapshot* before,
               std::vector<std::string>& places) {
  if (before != nullptr) {
    const auto kept = KeptAt(*before, at);
    if (kept && CanonicalJson(*kept) == CanonicalJson(value)) return;
  }
  if (value.kind != Json::Kind::kObject || value.members.empty()) return places.push_back(at);
  for (const Json::Member& member : value.members) {
    AddLeaves(member.second, at + TokenOf(member.first), before, places);
  }
}

// The arguments of a call by name.
std::optional<Json> ArgumentsIn(const Json& body) {
  if (const Json* const arguments = AtPointer(body, "/params/arguments")) return *arguments;
  const auto document = ParseGraphql(TextOf(body, "query"));
  const Json* const variables = body.Find("variables");
  if (!document || variables == nullptr) return std::nullopt;
  const auto operation = ChooseOperation(*document, {});
  const auto call = operation ? ResolveOperation(*document, **operation, *variables)
                              : std::unexpected(std::string());
  if (!call || call->fields.size() != 1) return std::nullopt;
  return call->fields.front().arguments;
}

// What an undo request writes, as the call's own body is read: of a call by name its arguments.
// nullopt: it cannot be told.
std::optional<Json> WrittenBy(const RequestTemplate& request, const RenderedRequest& undo) {
  Json written;
  if (!request.form.empty()) {
    written.kind = Json::Kind::kObject;
    for (const auto& [name, value] : ParsePairs(undo.body)) {
      written.members.push_back({name, Json{Json::Kind::kString, value, {}, {}}});
    }
    return written;
  }
  auto body = ParseJson(undo.body);
  if (!body) return std::nullopt;
  if (!request.calls.empty()) return ArgumentsIn(*body);
  return std::move(*body);
}

// A text that is no value of any call.
constexpr std::string_view kMark =
    "\x01"
    "kept ";

// A body with the name of what was kept where that goes, and nothing for all other placeholders.
Json Marked(const Node& node) {
  Json json = node.scalar;
  json.kind = node.kind;
  if (node.kind == Json::Kind::kString && node.text.size() == 1) {
    const auto& [literal, place, type] = node.text.front();
    if (!place) json.text = literal;
    if (place && place->source == Source::kBeforeBody) json.text = std::string(kMark) + place->name;
  }
  for (const Node& item : node.items) json.items.push_back(Marked(item));
  for (const auto& [name, value] : node.members) json.members.push_back({name, Marked(value)});
  return json;
}

void AddMarked(const Json& value, const std::string& at, std::vector<KeptArgument>& found) {
  if (value.kind == Json::Kind::kString && value.text.starts_with(kMark)) {
    found.push_back({at, value.text.substr(kMark.size())});
  }
  for (const Json::Member& member : value.members) {
    AddMarked(member.second, at + TokenOf(member.first), found);
  }
}

// Whether it is a call of the tool itself, so that both name what they set alike.
bool IsSamePlace(const Tool& tool, const RequestTemplate& request) {
  if (std::ranges::find(tool.methods, request.method) == tool.methods.end()) return false;
  std::string path;
  for (const RequestTemplate::Text& segment : request.path) {
    path += '/';
    for (const auto& piece : segment) {
      if (!piece.selector) path += piece.literal;
      if (!piece.selector) continue;
      if (piece.selector->source != Source::kPath) return false;
      path += '{' + piece.selector->name + '}';
    }
  }
  return std::ranges::find(tool.patterns, path) != tool.patterns.end();
}

// Takes the first token off `pointer`, which is not empty.
std::string TakeToken(std::string_view& pointer) {
  const auto end = std::min(pointer.find('/', 1), pointer.size());
  std::string name = MemberName(pointer.substr(1, end - 1));
  pointer.remove_prefix(end);
  return name;
}

// A PUT replaces what it names: only what the policy itself spells out member by member can lack
// one.
bool IsReplaced(const Node& body, std::string_view place) {
  const Node* node = &body;
  while (node->kind == Json::Kind::kObject) {
    if (place.empty()) return node != &body;
    const std::string name = TakeToken(place);
    const auto at = std::ranges::find(node->members, name, &std::pair<std::string, Node>::first);
    if (at == node->members.end()) return false;
    node = &at->second;
  }
  return true;
}

// Any other request may leave a member as it is by not naming it.
bool IsNamed(const Json& body, std::string_view place) {
  if (IsPatchOfPaths(body)) {
    std::vector<std::string> paths;
    AddPathsOf(body, paths);
    return std::ranges::any_of(paths, [&](const auto& path) { return IsPlaceIn(place, path); });
  }
  const Json* node = &body;
  while (node->kind == Json::Kind::kObject && !place.empty()) {
    node = node->Find(TakeToken(place));
    if (node == nullptr) return false;
  }
  return node != &body || node->kind != Json::Kind::kObject;
}

bool ReadsPlace(const std::vector<Selector>& selectors, Source source, std::string_view place) {
  return std::ranges::any_of(
      selectors, [&](const Selector& one) { return one.source == source && one.name == place; });
}

// What says which thing is written to.
std::vector<Selector> SelectorsOfTarget(const RequestTemplate& request) {
  RequestTemplate target;
  target.path = request.path;
  target.query = request.query;
  return SelectorsOf(target);
}

// It need not go back, or goes back under another name.
bool IsAnsweredFor(const Tool& tool, const UndoRule& rule, const std::string& place) {
  const bool is_key =
      tool.key && tool.key->at.where == RequestPlace::Where::kBody && tool.key->at.name == place;
  return is_key || ReadsPlace(SelectorsOf(rule.request), Source::kBeforeBody, place) ||
         ReadsPlace(SelectorsOfTarget(rule.request), Source::kBody, place) ||
         (tool.before && ReadsPlace(SelectorsOf(tool.before->request), Source::kBody, place)) ||
         std::ranges::any_of(rule.leaves, [&](const auto& one) { return IsPlaceIn(place, one); });
}

// The first place that `undo`, made by the rule, does not put back.
std::optional<std::string> LeftBehind(const Tool& tool, const UndoRule& rule,
                                      const RenderedRequest& undo,
                                      const std::vector<std::string>& set) {
  const RequestTemplate& request = rule.request;
  const bool replaces = request.method == "PUT" && request.json && request.calls.empty();
  const std::optional<Json> written = replaces ? std::nullopt : WrittenBy(request, undo);
  for (const std::string& place : set) {
    const bool is_back =
        replaces ? IsReplaced(*request.json, place) : written && IsNamed(*written, place);
    if (!is_back && (place.empty() || !IsAnsweredFor(tool, rule, place))) return place;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> PlacesSet(const CallValues& call) {
  std::vector<std::string> places;
  if (call.body_is_partial) return {std::string()};
  if (call.body == nullptr) return places;
  if (IsPatchOfPaths(*call.body)) {
    AddPathsOf(*call.body, places);
  } else if (call.body->kind != Json::Kind::kObject || !call.body->members.empty()) {
    AddLeaves(*call.body, {}, call.before, places);
  }
  std::size_t bytes = 0;
  for (const std::string& place : places) bytes += place.size() + 1;
  return bytes > limits::kPlacesBytesMax ? std::vector<std::string>{std::string()} : places;
}

std::vector<std::string> PlacesToPutBack(const Tool& tool, const CallValues& call) {
  const bool puts_back = std::ranges::any_of(
      UndosOf(tool), [&](const UndoRule* undo) { return PutsBack(tool, *undo); });
  return puts_back ? PlacesSet(call) : std::vector<std::string>();
}

void NotePlaces(const std::vector<std::string>& places, Headers& fields) {
  for (const std::string& place : places) fields.emplace_back(std::string(kSetsTerm), place);
}

std::vector<std::string> PlacesNoted(const Headers& fields) { return TermsOf(fields, kSetsTerm); }

std::vector<KeptArgument> KeptArguments(const Tool& tool) {
  std::vector<KeptArgument> found;
  for (const UndoRule* const undo : UndosOf(tool)) {
    const RequestTemplate& request = undo->request;
    if (!request.json) continue;
    if (request.calls.empty()) {
      if (IsSamePlace(tool, request)) AddMarked(Marked(*request.json), {}, found);
      continue;
    }
    if (const auto arguments = ArgumentsIn(Marked(*request.json))) AddMarked(*arguments, {}, found);
  }
  return found;
}

bool PutsBack(const Tool& tool, const UndoRule& rule) {
  const RequestTemplate& request = rule.request;
  if (!request.json && request.form.empty()) return false;
  if (!tool.before) {
    const auto is_patch = [](const std::string& method) { return method == "PATCH"; };
    return !tool.is_named() && !tool.methods.empty() &&
           std::ranges::all_of(tool.methods, is_patch) &&
           (is_patch(request.method) || request.method == "PUT");
  }
  RequestTemplate body;
  body.json = request.json;
  body.form = request.form;
  return std::ranges::any_of(
      SelectorsOf(body), [](const Selector& place) { return place.source == Source::kBeforeBody; });
}

bool SetsAtPath(const Tool& tool, const UndoRule& rule) {
  return tool.before && !tool.is_named() && rule.request.method == "POST" && PutsBack(tool, rule) &&
         IsSamePlace(tool, rule.request);
}

bool SetsBack(const Tool& tool, const CallValues& call) {
  if (!tool.before || !tool.undo) return false;
  const auto chosen = ChooseUndo(tool, call);
  if (!chosen) return false;
  const UndoRule& rule = *UndosOf(tool)[*chosen];
  return tool.is_named() ? PutsBack(tool, rule) : SetsAtPath(tool, rule);
}

bool MaySet(const UndoRule& rule, const std::string& place) {
  const RequestTemplate& request = rule.request;
  if (!request.calls.empty()) return true;
  if (request.json) return IsReplaced(*request.json, place);
  return std::ranges::any_of(request.form,
                             [&](const auto& field) { return TokenOf(field.first) == place; });
}

namespace {

// As Render says it.
constexpr std::string_view kValueMissing = "a value is missing";

// Of a value that is missing `Render` cannot say which one it is.
std::string WhyNotMade(const Tool& tool, const CallValues& values, const Json* state,
                       std::string_view why) {
  CallValues known = values;
  if (known.answer_body == nullptr) known.answer_body = state;
  const auto chosen = ChooseUndo(tool, known);
  if (why != kValueMissing || !chosen) return std::string(why);
  for (const Selector& place : SelectorsOf(UndosOf(tool)[*chosen]->request)) {
    const std::optional<Json> value = Select(place, values);
    if (value && value->kind != Json::Kind::kNull) continue;
    if (place.source != Source::kExternalRef || !tool.external_ref) {
      return '{' + place.text + "}: there is no such value";
    }
    return '{' + place.text + "}: there is nothing at " + tool.external_ref->text;
  }
  return std::string(why);
}

}  // namespace

std::expected<RenderedRequest, std::string> MakeUndo(const Tool& tool, const CallValues& values,
                                                     const std::vector<std::string>& set,
                                                     const Json* state) {
  auto undo = RenderUndo(tool, values, state);
  if (!undo) return std::unexpected(WhyNotMade(tool, values, state, undo.error().detail()));
  const UndoRule* const rule = UndoOf(&tool, *undo);
  if (rule == nullptr || !PutsBack(tool, *rule)) return std::move(*undo);
  const auto left = LeftBehind(tool, *rule, *undo, set);
  if (!left) return std::move(*undo);
  return std::unexpected(left->empty()
                             ? std::string("nobody can tell from its body what the call sets")
                             : "it would not put back body#" + *left + ", which the call sets");
}

}  // namespace recourse
