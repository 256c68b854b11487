#include "filters/key/ambiguity_check.h"

#include <algorithm>
#include <iterator>

#include "policy/model/method_override.h"
#include "policy/model/places_read.h"
#include "policy/uri/twins.h"

namespace recourse {
namespace {

using Source = Selector::Source;

bool IsBody(const Selector& place) { return place.source == Source::kBody; }

bool IsNamedByBodyAlone(const Tool& tool) {
  return !tool.identity.empty() && std::all_of(tool.identity.begin(), tool.identity.end(), IsBody);
}

// What is wrong with a place: the name in the call that stands against it; empty when that has no
// name. And where it stands.
struct Conflict {
  std::string name;
  std::string_view where = "the call";
  bool is_no_text = false;  // it is what the policy reads, and no value
};

constexpr std::string_view kInQuery = "the query", kInForm = "the form", kInBody = "the body",
                           kInCookies = "a cookie", kInHeader = "the header";

// One among `pairs` that some reader takes for `name`, beside the only one that is to be there.
std::optional<std::string> TwinAmong(const Pairs& pairs, std::string_view name, bool may_be_there) {
  for (const auto& [other, value] : pairs) {
    if (!AreTwins(NameIn::kForm, other, name)) continue;
    if (other != name || !may_be_there) return other;
    may_be_there = false;
  }
  return std::nullopt;
}

// The same for servers that split at ';' too.
std::optional<std::string> TwinIn(const Pairs& pairs, std::string_view raw, std::string_view name) {
  if (auto twin = TwinAmong(pairs, name, true)) return twin;
  if (raw.find(';') == std::string_view::npos) return std::nullopt;
  std::string split(raw);
  std::ranges::replace(split, ';', '&');
  if (CountPairs(split) > limits::kFormPairsMax) return std::string(name);  // nobody looks at all
  const Pairs more = ParsePairs(split);
  if (auto twin = TwinAmong(more, name, true)) return twin;
  const auto value_of = [name](const Pairs& from) {
    const auto found = std::ranges::find(from, name, &std::pair<std::string, std::string>::first);
    return found == from.end() ? std::string() : found->second;
  };
  return value_of(pairs) == value_of(more) ? std::nullopt : std::optional(std::string(name));
}

// In a query that is to have none of that name.
std::optional<std::string> TwinBesideBody(const HttpRequest& request, const Pairs& query,
                                          std::string_view name) {
  if (auto twin = TwinAmong(query, name, false)) return twin;
  std::string split =
      request.target.substr(std::min(request.target.find('?'), request.target.size()));
  if (split.find(';') == std::string::npos) return std::nullopt;
  std::ranges::replace(split, ';', '&');
  if (CountPairs(split) > limits::kFormPairsMax) return std::string(name);
  return TwinAmong(ParsePairs(split.substr(1)), name, false);
}

Pairs CookiesOf(const HttpRequest& request) {
  Pairs cookies;
  for (const auto& [field, value] : request.headers) {
    if (!EqualsIgnoreCase(field, "Cookie")) continue;
    std::string text = value;
    std::erase(text, ' ');
    std::ranges::replace(text, ';', '&');
    std::ranges::move(ParsePairs(text), std::back_inserter(cookies));
  }
  return cookies;
}

// RFC 6901, one step at a time.
std::string TakeStep(std::string_view& pointer) {
  pointer.remove_prefix(1);
  const auto end = std::min(pointer.find('/'), pointer.size());
  std::string step;
  for (std::size_t i = 0; i < end; ++i) {
    const bool is_escape = pointer[i] == '~' && i + 1 < end;
    step.push_back(is_escape ? (pointer[++i] == '0' ? '~' : '/') : pointer[i]);
  }
  pointer.remove_prefix(end);
  return step;
}

// A member on the way that some reader takes for the one that is meant. What JavaScript keeps in
// `__proto__` may stand in for any.
std::optional<std::string> TwinOnTheWay(const Json& root, std::string_view pointer) {
  const Json* at = &root;
  while (!pointer.empty() && at != nullptr) {
    const std::string step = TakeStep(pointer);
    if (at->kind == Json::Kind::kArray) {
      at = AtPointer(*at, "/" + step);
      continue;
    }
    if (at->kind != Json::Kind::kObject) return std::nullopt;
    for (const auto& [name, value] : at->members) {
      if (name == step) continue;
      if (AreTwins(NameIn::kJson, name, step) || name == "__proto__") return name;
    }
    at = at->Find(step);
  }
  return std::nullopt;
}

// The first step of a pointer, and whether it is the only one.
struct Step {
  std::string name;
  bool is_only = false;
};
Step FirstStep(std::string_view pointer) {
  if (pointer.empty()) return {};
  Step step;
  step.name = TakeStep(pointer);
  step.is_only = pointer.empty();
  return step;
}

// Names that a server may add to those of the query.
std::optional<std::string> TwinInBody(const CallBody& body, std::string_view name) {
  if (body.form == BodyForm::kForm) return TwinAmong(body.pairs, name, false);
  if (body.form == BodyForm::kJson) {
    for (const Json::Member& member : body.json.members) {
      if (AreTwins(NameIn::kForm, member.first, name)) return member.first;
    }
  }
  for (const BodyPart& part : body.parts) {
    for (const std::string& other : part.names) {
      if (AreTwins(NameIn::kForm, other, name)) return other;
    }
  }
  return std::nullopt;
}

// The same among the parts of multipart, of which one may have the name, if it is text.
std::optional<Conflict> ConflictInParts(const std::vector<BodyPart>& parts, std::string_view name) {
  bool is_there = false;
  for (const BodyPart& part : parts) {
    for (const std::string& other : part.names) {
      if (!AreTwins(NameIn::kForm, other, name)) continue;
      if (is_there || other != name || part.names.size() > 1) return Conflict{other, kInForm};
      if (!part.is_text) return Conflict{other, kInForm, true};
      is_there = true;
    }
  }
  return std::nullopt;
}

// What says in which charset the parts are that do not say it themselves (RFC 7578, 4.6).
bool HasCharsetPart(const std::vector<BodyPart>& parts) {
  return std::ranges::any_of(parts, [](const BodyPart& part) {
    const bool says = std::ranges::any_of(part.names, [](const std::string& name) {
      return AreTwins(NameIn::kForm, name, "_charset_");
    });
    return says && !IsUtf8Form("a/b; charset=" + part.content.substr(0, limits::kPartLineBytesMax));
  });
}

// A form that servers may read in which nobody here can look for a name.
bool IsUnreadForm(const CallBody& body) {
  const std::string type = body.form == BodyForm::kRaw ? ToLower(body.raw_type) : std::string();
  return type.starts_with("application/x-www-form-urlencoded") || type.starts_with("multipart/");
}

std::optional<Conflict> AsConflict(std::optional<std::string> name, std::string_view where) {
  if (!name) return std::nullopt;
  return Conflict{std::move(*name), where};
}

std::optional<Conflict> ConflictInQuery(std::string_view name, const HttpRequest& request,
                                        const CallBody& body, const Pairs& query) {
  const auto mark = std::min(request.target.find('?'), request.target.size());
  const std::string_view raw = std::string_view(request.target).substr(mark);
  if (HasMalformedEscape(raw)) return Conflict{{}, kInQuery};
  if (auto twin = TwinIn(query, raw.empty() ? raw : raw.substr(1), name)) {
    return Conflict{std::move(*twin), kInQuery};
  }
  if (auto twin = TwinInBody(body, name)) return Conflict{std::move(*twin), kInBody};
  if (IsUnreadForm(body)) return Conflict{{}, kInBody};
  return AsConflict(TwinAmong(CookiesOf(request), name, false), kInCookies);
}

std::optional<Conflict> ConflictInBody(std::string_view pointer, const HttpRequest& request,
                                       const CallBody& body, const Pairs& query) {
  const bool is_form = body.is_form();
  const Step step = FirstStep(pointer);
  if (step.name.empty() || (is_form && !step.is_only)) return std::nullopt;
  const auto conflict = body.form == BodyForm::kForm
                            ? AsConflict(TwinIn(body.pairs, request.body, step.name), kInForm)
                        : is_form ? ConflictInParts(body.parts, step.name)
                                  : AsConflict(TwinOnTheWay(body.json, pointer), kInBody);
  if (conflict) return conflict;
  if (!body.call_name.empty()) return std::nullopt;
  if (auto other = TwinBesideBody(request, query, step.name)) return Conflict{*other, kInQuery};
  return is_form ? AsConflict(TwinAmong(CookiesOf(request), step.name, false), kInCookies)
                 : std::nullopt;
}

std::optional<Conflict> ConflictWith(const Selector& place, const HttpRequest& request,
                                     const CallBody& body, const Pairs& query) {
  switch (place.source) {
    case Source::kQuery:
      return ConflictInQuery(place.name, request, body, query);
    case Source::kHeader: {
      bool is_there = false;
      for (const auto& [field, value] : request.headers) {
        if (!AreTwins(NameIn::kHeader, field, place.name)) continue;
        if (is_there || !EqualsIgnoreCase(field, place.name)) return Conflict{field, kInHeader};
        is_there = true;
      }
      return std::nullopt;
    }
    case Source::kBody:
      if (body.values() == nullptr) return std::nullopt;
      return ConflictInBody(place.name, request, body, query);
    default:
      return std::nullopt;
  }
}

Objection UnreadableBody(std::string detail) {
  return {ErrorCode::kUnsupportedMediaType, std::move(detail)};
}

// JSON that calls itself a form, as `curl -d` sends it: its fields would be read as none. Some find
// it behind a byte order mark, and in UTF-16 and UTF-32, as Python does.
bool IsJsonAsForm(const CallBody& body, const HttpRequest& request) {
  static constexpr std::string_view kBefore(" \t\r\n\0\xef\xbb\xbf\xfe\xff", 10);
  if (body.form != BodyForm::kForm) return false;
  const auto first = request.body.find_first_not_of(kBefore);
  return first != std::string::npos && (request.body[first] == '{' || request.body[first] == '[');
}

std::optional<Objection> ObjectionToBody(const Tool& tool, const HttpRequest& request,
                                         const CallBody& body, const std::string& place,
                                         bool intent_is_named) {
  if (IsEncoded(request.headers) && body.form == BodyForm::kRaw) {
    return UnreadableBody(
        "the policy reads " + place +
        ", which an encoded body does not show; send it without Content-Encoding");
  }
  const auto is_text = [&] {
    const std::string* const type = FindHeader(request.headers, "Content-Type");
    return type == nullptr || IsUtf8Form(*type);
  };
  if (body.is_form() && (!is_text() || HasCharsetPart(body.parts))) {
    return UnreadableBody("the policy reads " + place +
                          " from the form, which has to be in UTF-8: send it without a charset");
  }
  if (body.form == BodyForm::kRaw || IsJsonAsForm(body, request)) {
    return UnreadableBody(
        "the policy reads " + place +
        " from the body; send JSON with Content-Type: application/json, or a form");
  }
  if (body.form == BodyForm::kNone && IsNamedByBodyAlone(tool) && !intent_is_named) {
    return Objection{ErrorCode::kMalformedRequest,
                     "the policy reads " + place + " from the body, and the call has none"};
  }
  return std::nullopt;
}

// Names both: what the policy reads, and what stands against it.
std::string WhyRefused(const Selector& place, const Conflict& conflict) {
  if (conflict.is_no_text) {
    return "the policy reads " + place.text + ", and the part '" + ShownName(conflict.name) +
           "' of the form is a file or no plain text in UTF-8; send it as a field of text";
  }
  if (conflict.name.empty()) {
    return "the policy reads " + place.text + ", and " + std::string(conflict.where) +
           " is malformed or encoded, so that more may stand in it; send it well-formed";
  }
  return "the policy reads " + place.text + ", and some servers take '" + ShownName(conflict.name) +
         "' in " + std::string(conflict.where) +
         " for it too; send it once, in that place and spelling";
}

}  // namespace

std::optional<Objection> ObjectionTo(const Tool& tool, const HttpRequest& request,
                                     const CallBody& body, const Pairs& query,
                                     bool intent_is_named) {
  std::vector<Selector> places = PlacesRead(tool);
  for (const std::string& pointer : tool.ignore) {
    Selector place;
    place.name = pointer;
    place.text = "body#" + pointer;
    places.push_back(std::move(place));
  }
  const auto body_place = std::find_if(places.begin(), places.end(), IsBody);
  if (body_place != places.end()) {
    auto objection = ObjectionToBody(tool, request, body, body_place->text, intent_is_named);
    if (objection) return objection;
  }
  if (body.form == BodyForm::kRaw && IsEncoded(request.headers) && tool.identity.empty() &&
      !intent_is_named && !tool.name.empty()) {
    return UnreadableBody(
        "the key of this tool is made of its arguments, which an encoded body does not show; "
        "send it without Content-Encoding, or name the call with Idempotency-Key");
  }
  for (const Selector& place : places) {
    const auto conflict = ConflictWith(place, request, body, query);
    if (conflict) return Objection{ErrorCode::kMalformedRequest, WhyRefused(place, *conflict)};
  }
  return std::nullopt;
}

}  // namespace recourse
