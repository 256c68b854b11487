#include "proxy/admin/views/message_view.h"

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
