#include "proxy/admin/views/message_view.h"

#include <algorithm>

#include "policy/model/principal.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/json/json_object.h"

namespace recourse {

void WriteFields(JsonObject& json, const Headers& headers, std::string_view hidden) {
  json.Each("headers", headers, [hidden](std::string& out, const Header& field) {
    JsonList pair(out);
    pair.Text(field.first);
    const bool is_hidden = IsCredentialField(field.first) || IsPrincipalField(field.first) ||
                           EqualsIgnoreCase(field.first, "Mcp-Session-Id");
    pair.Text(is_hidden ? hidden : std::string_view(field.second));
  });
}

std::string ShownTarget(std::string_view target, std::string_view hidden) {
  const auto mark = target.find('?');
  if (mark == std::string_view::npos) return std::string(target);
  std::string shown(target.substr(0, mark + 1));
  std::string_view query = target.substr(mark + 1);
  for (bool is_first = true; is_first || !query.empty(); is_first = false) {
    const auto end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    const bool is_last = end == query.size();
    query.remove_prefix(is_last ? end : end + 1);
    const Pairs parsed = ParsePairs(pair);
    const bool is_hidden = !parsed.empty() && IsPrincipalParameter(parsed.front().first);
    shown += is_hidden ? pair.substr(0, pair.find('=')) : pair;
    if (is_hidden) shown.append("=").append(hidden);
    if (!is_last) shown += '&';
  }
  return shown;
}

void WriteBody(JsonObject& json, std::string_view body) {
  if (IsUtf8(body)) {
    json.Text("body", body);
  } else {
    json.Text("body_base64", ToBase64(body));
  }
}

void WriteResponse(JsonObject& json, std::string_view name, const HttpResponse& answer,
                   std::string_view hidden) {
  JsonObject message(json.Value(name));
  message.Number("status", answer.status);
  WriteFields(message, answer.headers, hidden);
  WriteBody(message, answer.body);
}

}  // namespace recourse
