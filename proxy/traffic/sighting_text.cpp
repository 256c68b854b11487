#include <charconv>

#include "proxy/base/json/json_object.h"
#include "proxy/traffic/seen_call.h"

namespace recourse {
namespace {

constexpr std::string_view kReadOnly = "read-only";

std::string HexOf(std::uint64_t number) {
  char text[16];
  const auto end = std::to_chars(text, text + sizeof text, number, 16);
  return {text, end.ptr};
}

std::uint64_t HashIn(std::string_view hex) {
  std::uint64_t number = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), number, 16);
  return number;
}

void PutValues(JsonObject& json, std::string_view name, const std::vector<SeenValue>& values) {
  json.Each(name, values, [](std::string& out, const SeenValue& value) {
    JsonList parts(out);
    parts.Text(value.place);
    parts.Text(HexOf(value.hash));
    parts.Text(std::string(1, static_cast<char>(value.kind)));
  });
}

std::vector<SeenValue> ValuesIn(const Json& object, std::string_view name) {
  std::vector<SeenValue> values;
  const Json* const list = object.Find(name);
  if (!IsArray(list)) return values;
  for (const Json& item : list->items) {
    if (item.items.size() != 3 || item.items[2].text.size() != 1) continue;
    values.push_back({item.items[0].text, HashIn(item.items[1].text),
                      static_cast<ValueKind>(item.items[2].text.front())});
  }
  return values;
}

}  // namespace

std::string TextOf(const Sighting& sighting) {
  return ObjectText([&](JsonObject& json) {
    json.Number("at", sighting.wall_ms);
    json.Number("took", sighting.took_ms);
    json.Text("backend", sighting.backend);
    json.Text("method", sighting.method);
    json.TextIfAny("tool", sighting.tool);
    json.Text("caller", HexOf(sighting.caller));
    json.Text("trace", HexOf(sighting.trace));
    json.Text("key", HexOf(sighting.agent_key));
    json.Each("path", sighting.path, [](std::string& to, const SeenSegment& segment) {
      JsonList parts(to);
      parts.Text(segment.word);
      parts.Text(HexOf(segment.hash));
    });
    PutValues(json, "query", sighting.query);
    json.Text("form", std::string(1, static_cast<char>(sighting.form)));
    PutValues(json, "body", sighting.body);
    json.Number("status", sighting.status);
    json.Bool("delivered", sighting.is_delivered);
    PutValues(json, "answer", sighting.answer);
    json.Each("hints", sighting.hints, [](std::string& to, const SeenHint& hint) {
      JsonList parts(to);
      parts.Text(hint.tool);
      parts.Text(hint.is_read_only ? kReadOnly : "");
    });
  });
}

bool ReadSighting(std::string_view text, Sighting& sighting) {
  const auto json = ParseJson(text);
  if (!json || !IsObject(&*json)) return false;
  const std::string at = ScalarText(*json, "at");
  std::from_chars(at.data(), at.data() + at.size(), sighting.wall_ms);
  const std::string took = ScalarText(*json, "took");
  std::from_chars(took.data(), took.data() + took.size(), sighting.took_ms);
  const std::string status = ScalarText(*json, "status");
  std::from_chars(status.data(), status.data() + status.size(), sighting.status);
  sighting.backend = TextOf(*json, "backend");
  sighting.method = TextOf(*json, "method");
  sighting.tool = TextOf(*json, "tool");
  sighting.caller = HashIn(TextOf(*json, "caller"));
  sighting.trace = HashIn(TextOf(*json, "trace"));
  sighting.agent_key = HashIn(TextOf(*json, "key"));
  if (const Json* const path = json->Find("path"); IsArray(path)) {
    for (const Json& segment : path->items) {
      if (segment.items.size() != 2) return false;
      sighting.path.push_back({segment.items[0].text, HashIn(segment.items[1].text)});
    }
  }
  const std::string_view form = TextOf(*json, "form");
  if (form.size() == 1) sighting.form = static_cast<SeenBody>(form.front());
  sighting.query = ValuesIn(*json, "query");
  sighting.body = ValuesIn(*json, "body");
  sighting.answer = ValuesIn(*json, "answer");
  if (const Json* const hints = json->Find("hints"); IsArray(hints)) {
    for (const Json& hint : hints->items) {
      if (hint.items.size() != 2) return false;
      sighting.hints.push_back({hint.items[0].text, hint.items[1].text == kReadOnly});
    }
  }
  sighting.is_delivered = ScalarText(*json, "delivered") == "true";
  return !sighting.backend.empty() && !sighting.method.empty();
}

}  // namespace recourse
