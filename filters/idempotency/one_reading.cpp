#include "filters/idempotency/one_reading.h"

#include <algorithm>

#include "policy/places_read.h"

namespace recourse {
namespace {

using Source = Selector::Source;

bool IsBody(const Selector& place) { return place.source == Source::kBody; }

bool IsNamedByBodyAlone(const Tool& tool) {
  return !tool.identity.empty() && std::all_of(tool.identity.begin(), tool.identity.end(), IsBody);
}

// The name that lenient servers take this one for: `Action[]` and `action[0]` are `action`.
std::string LooseName(std::string_view name) {
  const auto bracket = name.rfind('[');
  if (bracket != std::string_view::npos && bracket > 0 && name.ends_with(']')) {
    const std::string_view index = name.substr(bracket + 1, name.size() - bracket - 2);
    if (index.find_first_not_of("0123456789") == std::string_view::npos) {
      name = name.substr(0, bracket);
    }
  }
  return ToLower(name);
}

// True when every reader finds the same single value under `name`, or none finds any.
bool HasOnePair(const Pairs& pairs, std::string_view raw, std::string_view name) {
  std::string split(raw);
  std::replace(split.begin(), split.end(), ';', '&');
  const std::string wanted = LooseName(name);
  const auto values = [&](const Pairs& from) {
    Pairs found;
    for (const auto& pair : from) {
      if (LooseName(pair.first) == wanted) found.push_back(pair);
    }
    return found;
  };
  const Pairs found = values(pairs);
  if (found.size() > 1 || (found.size() == 1 && found.front().first != name)) return false;
  return split == raw || values(ParsePairs(split)) == found;
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

// True when no member on the way has a twin in another case.
bool HasOneMember(const Json& root, std::string_view pointer) {
  const Json* at = &root;
  while (!pointer.empty() && at != nullptr) {
    const std::string step = TakeStep(pointer);
    if (at->kind == Json::Kind::kArray) {
      at = AtPointer(*at, "/" + step);
      continue;
    }
    if (at->kind != Json::Kind::kObject) return true;
    for (const auto& [name, value] : at->members) {
      if (name != step && EqualsIgnoreCase(name, step)) return false;
    }
    at = at->Find(step);
  }
  return true;
}

// The form field that a pointer reads; empty when it reads none.
std::string FieldOf(std::string_view pointer) {
  if (pointer.empty()) return {};
  std::string field = TakeStep(pointer);
  return pointer.empty() ? field : std::string();
}

bool HasOneReading(const Selector& place, const HttpRequest& request, const CallBody& body,
                   const Pairs& query) {
  switch (place.source) {
    case Source::kQuery: {
      const auto mark = std::min(request.target.find('?'), request.target.size());
      const std::string_view raw = std::string_view(request.target).substr(mark);
      if (HasMalformedEscape(raw)) return false;
      return HasOnePair(query, raw.empty() ? raw : raw.substr(1), place.name);
    }
    case Source::kHeader:
      return std::count_if(request.headers.begin(), request.headers.end(), [&](const auto& field) {
               return EqualsIgnoreCase(field.first, place.name);
             }) <= 1;
    case Source::kBody:
      if (body.form == BodyForm::kJson) return HasOneMember(body.json, place.name);
      if (body.form == BodyForm::kForm) {
        const std::string field = FieldOf(place.name);
        return field.empty() || HasOnePair(body.pairs, request.body, field);
      }
      return true;
    default:
      return true;
  }
}

Objection UnreadableBody(std::string detail) {
  return {ErrorCode::kUnsupportedMediaType, std::move(detail)};
}

// JSON that calls itself a form, as `curl -d` sends it: its fields would be read as none.
bool IsJsonAsForm(const CallBody& body, const HttpRequest& request) {
  if (body.form != BodyForm::kForm) return false;
  const auto first = request.body.find_first_not_of(" \t\r\n");
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
  const auto bad = std::find_if(places.begin(), places.end(), [&](const Selector& place) {
    return !HasOneReading(place, request, body, query);
  });
  if (bad == places.end()) return std::nullopt;
  return Objection{ErrorCode::kMalformedRequest,
                   "the policy reads " + bad->text +
                       ", which this call has more than once or in another spelling; send it once"};
}

}  // namespace recourse
