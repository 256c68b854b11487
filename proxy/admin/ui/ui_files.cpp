#include "proxy/admin/ui/ui_files.h"

#include <algorithm>
#include <array>
#include <utility>

#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/access/problem.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {
namespace {

constexpr std::string_view kShell = "index.html";

// No inline script or style, nothing from elsewhere, no frame; and no text ever becomes markup
// (require-trusted-types-for).
constexpr std::string_view kShellRules =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";
constexpr std::string_view kAnswerRules = "default-src 'none'; frame-ancestors 'none'";

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kTypes = {{
    {".html", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".svg", "image/svg+xml"},
    {".json", "application/json"},
}};

std::string_view TypeOf(std::string_view name) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const auto& type) { return name.ends_with(type.first); });
  return found == kTypes.end() ? "application/octet-stream" : found->second;
}

void SetIfAbsent(HttpResponse& response, std::string_view name, std::string_view value) {
  if (FindHeader(response.headers, name) == nullptr) {
    response.headers.emplace_back(std::string(name), std::string(value));
  }
}

// Each has one address. Without a name: there is none.
UiFile FileAt(std::string_view path) {
  const std::string_view name =
      path == admin_paths::kUi ? kShell : admin_paths::PlaceIn(admin_paths::kUiFile, path);
  const auto files = EmbeddedUiFiles();
  const auto file = std::ranges::find(files, name, &UiFile::name);
  return file == files.end() || name == kOpenApiParts ? UiFile() : *file;
}

}  // namespace

HttpResponse ServeUiFile(const HttpRequest& request, std::string_view path) {
  const UiFile file = FileAt(path);
  if (!file.name.empty()) return ServeFile(request, file);
  return Problem(404, "Not found", "the web UI has no such file; it begins at /");
}

HttpResponse ServeFile(const HttpRequest& request, const UiFile& file) {
  const std::string tag = "\"" + ToHex(Sha256(file.bytes)).substr(0, 32) + "\"";
  HttpResponse response{200,
                        "OK",
                        {{"Content-Type", std::string(TypeOf(file.name))},
                         {"ETag", tag},
                         {"Cache-Control", "no-cache"},
                         {"Content-Security-Policy", std::string(kShellRules)}},
                        {}};
  const std::string* known = FindHeader(request.headers, "If-None-Match");
  if (known != nullptr && known->find(tag) != std::string::npos) {
    response.status = 304;
  } else {
    response.body = file.bytes;
  }
  return response;
}

void AddBrowserRules(HttpResponse& response) {
  SetIfAbsent(response, "Cache-Control", "no-store");
  SetIfAbsent(response, "Content-Security-Policy", kAnswerRules);
  SetIfAbsent(response, "X-Content-Type-Options", "nosniff");
  SetIfAbsent(response, "Referrer-Policy", "no-referrer");
  SetIfAbsent(response, "Cross-Origin-Opener-Policy", "same-origin");
  SetIfAbsent(response, "Cross-Origin-Resource-Policy", "same-origin");
  SetIfAbsent(response, "X-Frame-Options", "DENY");
}

}  // namespace recourse
