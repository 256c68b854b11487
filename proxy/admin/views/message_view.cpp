#include "proxy/admin/views/message_view.h"

#include <algorithm>

#include "policy/model/principal.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {
namespace {

namespace message_members {

constexpr JsonMember<KeptMessage> kMessage[] = {
    member::Text<&KeptMessage::method>("method").MayLack(),
    member::Text<&KeptMessage::target>("target").MayLack(),
    member::Number<&KeptMessage::status>("status").MayLack(),
    member::Fields<[](const KeptMessage& of) -> const Headers& { return of.headers; },
                   &KeptMessage::hidden>(),
    member::Body<&KeptMessage::body>(),
    member::CodedBody<&KeptMessage::body>(),
};

}  // namespace message_members
}  // namespace

void WriteFields(JsonObject& json, std::string_view name, const Headers& headers,
                 std::string_view hidden) {
  json.Each(name, headers, [hidden](std::string& out, const Header& field) {
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

void WriteMessage(JsonObject& json, std::string_view name, const KeptMessage& message) {
  JsonObject object = json.Object(name);
  WriteMembers(object, message_members::kMessage, message);
}

void WriteResponse(JsonObject& json, std::string_view name, const HttpResponse& answer,
                   std::string_view hidden) {
  WriteMessage(
      json, name,
      {.status = answer.status, .headers = answer.headers, .body = answer.body, .hidden = hidden});
}

std::vector<JsonShape> MessageShapes() {
  return {{"KeptMessage", "`body_base64` where the body is no UTF-8.",
           DocsOf(message_members::kMessage)}};
}

}  // namespace recourse
