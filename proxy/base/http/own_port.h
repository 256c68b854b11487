// How a client finds out which of our ports it talks to, before it shows a credential.
#pragma once

#include <string>
#include <string_view>

#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json_object.h"

namespace recourse {

// Every port of ours answers a GET of this by itself, for anybody.
inline constexpr std::string_view kPortPath = "/.recourse/port";
// What `recourse run` calls them.
inline constexpr std::string_view kAgentsPort = "listen";
inline constexpr std::string_view kAdminPort = "admin";
inline constexpr std::string_view kProbesPort = "probes";

inline HttpResponse PortAnswer(std::string_view port) {
  return {200,
          "OK",
          {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
          ObjectText([&](JsonObject& json) { json.Text("recourse", port); })};
}

}  // namespace recourse
