// The files that are part of the binary: the web UI (proxy/admin/ui) and what openapi.json is made
// of, which describes the admin API.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "proxy/base/http/http_message.h"

namespace recourse {

// Written by proxy/base/embed.cmake. Both texts live as long as the process.
struct UiFile {
  std::string_view name;  // "app.js"
  std::string_view bytes;
};
std::span<const UiFile> EmbeddedUiFiles();
inline constexpr std::string_view kOpenApiParts = "openapi_parts.json";

// A GET of `/` or `/ui/NAME`, for anybody: they hold nothing of what is remembered.
HttpResponse ServeUiFile(const HttpRequest& request, std::string_view path);
// With an ETag, and 304 for whoever has the file already.
HttpResponse ServeFile(const HttpRequest& request, const UiFile& file);

// Says what a browser may do with any answer of the admin port, where it does not say so yet.
void AddBrowserRules(HttpResponse& response);

}  // namespace recourse
