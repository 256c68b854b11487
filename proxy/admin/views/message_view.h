// HTTP messages as members of a JSON object.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/crypto/hash.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json_shape.h"

namespace recourse {

// `name`: pairs [name, value]; a value that carries credentials is `hidden` instead.
void WriteFields(JsonObject& json, std::string_view name, const Headers& headers,
                 std::string_view hidden);
// A request's target, with `hidden` for the value of each query parameter that is a credential.
std::string ShownTarget(std::string_view target, std::string_view hidden);

// A request or an answer that was kept.
struct KeptMessage {
  std::optional<std::string_view> method{};
  std::optional<std::string> target{};
  std::optional<int> status{};
  const Headers& headers;
  std::string_view body;
  std::string_view hidden;
};
// `name`: an object of it.
void WriteMessage(JsonObject& json, std::string_view name, const KeptMessage& message);
void WriteResponse(JsonObject& json, std::string_view name, const HttpResponse& answer,
                   std::string_view hidden);

std::vector<JsonShape> MessageShapes();

namespace member {

template <auto kHeaders, auto kHidden>
constexpr auto Fields() {
  return Own({"headers", "Pair", "", false, /*is_list=*/true},
             [](JsonObject& json, std::string_view as, const auto& of) {
               WriteFields(json, as, std::invoke(kHeaders, of), std::invoke(kHidden, of));
             });
}
// A body is one of these: the second where it is no UTF-8.
template <auto kGet>
constexpr auto Body() {
  return Own({"body", kTextSchema, "", /*may_lack=*/true},
             [](JsonObject& json, std::string_view as, const auto& of) {
               const std::string_view body = std::invoke(kGet, of);
               if (IsUtf8(body)) json.Text(as, body);
             });
}
template <auto kGet>
constexpr auto CodedBody() {
  return Own({"body_base64", kTextSchema, "", /*may_lack=*/true},
             [](JsonObject& json, std::string_view as, const auto& of) {
               const std::string_view body = std::invoke(kGet, of);
               if (!IsUtf8(body)) json.Text(as, ToBase64(body));
             });
}

}  // namespace member
}  // namespace recourse
