// How a client finds out which of our ports it talks to, before it shows a credential.
#pragma once

#include <string>
#include <string_view>

#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json_shape.h"

namespace recourse {

// Every port of ours answers a GET of this by itself, for anybody.
inline constexpr std::string_view kPortPath = "/.recourse/port";
// What `recourse run` calls them.
inline constexpr std::string_view kAgentsPort = "listen";
inline constexpr std::string_view kAdminPort = "admin";
inline constexpr std::string_view kProbesPort = "probes";

namespace port_members {

constexpr JsonMember<std::string_view> kPort[] = {
    member::Word<[](std::string_view port) { return port; }>(
        "recourse", R"({"type": "string", "enum": ["admin"]})",
        "At other ports of Recourse: listen, probes"),
};

}  // namespace port_members

inline HttpResponse PortAnswer(std::string_view port) {
  return {200,
          "OK",
          {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
          ObjectText([&](JsonObject& json) { WriteMembers(json, port_members::kPort, port); })};
}
// As the admin port answers.
inline JsonShape PortShape() { return {"Port", "", DocsOf(port_members::kPort)}; }

}  // namespace recourse
