#include "filters/call/redirect.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "policy/model/route_table.h"
#include "policy/uri/addresses.h"
#include "policy/uri/authority.h"
#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

struct RedirectTarget {
  std::string scheme;
  Authority authority;
  std::string rest;  // path, query, fragment
};

// As parsers after the WHATWG URL Standard read it: without controls and blanks at its ends, and
// without tabs and ends of lines anywhere. Of http(s), to them, a backslash before the query is a
// slash.
std::string AsClientsRead(std::string_view location) {
  const auto is_blank = [](char c) { return static_cast<unsigned char>(c) <= 0x20; };
  while (!location.empty() && is_blank(location.front())) location.remove_prefix(1);
  while (!location.empty() && is_blank(location.back())) location.remove_suffix(1);
  std::string text(location);
  std::erase_if(text, [](char c) { return c == '\t' || c == '\r' || c == '\n'; });
  const auto query =
      text.begin() + static_cast<std::ptrdiff_t>(std::min(text.find_first_of("?#"), text.size()));
  std::replace(text.begin(), query, '\\', '/');
  return text;
}

// Takes "http:" or "https:" off; empty: the text has neither.
std::string TakeHttpScheme(std::string_view& text) {
  const auto colon = std::min(text.find(':'), text.size());
  std::string scheme = ToLower(text.substr(0, colon));
  if (colon == text.size() || (scheme != "http" && scheme != "https")) return {};
  text.remove_prefix(colon + 1);
  return scheme;
}

// nullopt: a relative reference, which leads to whoever the client asked, or nothing that a client
// could follow over HTTP. Clients take any number of slashes behind a scheme, and two or more
// without one, for the two before an authority.
std::optional<RedirectTarget> AbsoluteTarget(std::string_view location,
                                             std::string_view own_scheme) {
  const std::string read = AsClientsRead(location);
  std::string_view text = read;
  RedirectTarget target;
  target.scheme = TakeHttpScheme(text);
  if (target.scheme.empty()) {
    if (!text.starts_with("//")) return std::nullopt;
    target.scheme = own_scheme;
  }
  text.remove_prefix(std::min(text.find_first_not_of('/'), text.size()));
  const auto end = std::min(text.find_first_of("/?#"), text.size());
  std::string_view authority = text.substr(0, end);
  if (const auto at = authority.rfind('@'); at != std::string_view::npos) {
    authority.remove_prefix(at + 1);
  }
  target.authority = ParseAuthority(authority).value_or(Authority());
  if (target.authority.port == 0) target.authority.port = target.scheme == "https" ? 443 : 80;
  target.rest = text.substr(end);
  return target;
}

bool IsLoopback(const std::string& host) {
  const auto address = ParseIpAddress(host);
  return host == "localhost" || (address && ClassOf(*address) == AddressClass::kLoopback);
}

// By the url of the backend, one of its names, or another name of this machine.
bool LeadsTo(const Policy& policy, const Backend& backend, const RedirectTarget& target) {
  if (target.scheme != backend.scheme) return false;
  const Authority& authority = target.authority;
  if (IsLoopback(authority.host) && IsLoopback(backend.host)) {
    return authority.port == backend.port;
  }
  const Backend* const found = policy.routes->FindBackend(
      Bracketed(authority.host) + ':' + std::to_string(authority.port), authority.port);
  return found != nullptr && found->host == backend.host && found->port == backend.port;
}

// The path, with what follows it, by which an agent calls that place of the backend; nullopt: none.
std::optional<std::string> PathHere(const Backend& backend, std::string_view rest) {
  if (!rest.starts_with(backend.base_path)) return std::nullopt;
  rest.remove_prefix(backend.base_path.size());
  // Two slashes at its beginning would name another host.
  if (rest.starts_with("//")) return std::nullopt;
  if (rest.starts_with('/')) return std::string(rest);
  const bool is_whole = rest.empty() || rest.front() == '?' || rest.front() == '#';
  return is_whole ? std::optional("/" + std::string(rest)) : std::nullopt;
}

}  // namespace

RedirectPlan PlanRedirect(const Policy& policy, const Backend& backend, int status,
                          std::string_view location) {
  using Kind = RedirectPlan::Kind;
  if (status != 307 && status != 308) return {};
  const auto target = AbsoluteTarget(location, backend.scheme);
  if (!target) return {};
  if (LeadsTo(policy, backend, *target)) {
    if (auto path = PathHere(backend, target->rest)) return {Kind::kRewrite, std::move(*path)};
  }
  // What follows the path may be secret.
  const std::string path =
      target->rest.substr(0, std::min(target->rest.find_first_of("?#"), target->rest.size()));
  return {Kind::kRefuse,
          {},
          fmt::format("the backend redirects to {}://{}:{}{}, past Recourse; put that url in the "
                      "policy and have the agent call it here",
                      target->scheme, Bracketed(target->authority.host), target->authority.port,
                      path.substr(0, 256))};
}

std::optional<std::string> PathOnBackend(const Policy& policy, const Backend& backend,
                                         std::string_view path, std::string_view location) {
  location = location.substr(0, std::min(location.find('#'), location.size()));
  if (location.empty()) return std::nullopt;
  const auto target = AbsoluteTarget(location, backend.scheme);
  if (target) {
    if (!LeadsTo(policy, backend, *target)) return std::nullopt;
    return PathHere(backend, target->rest);
  }
  if (location.starts_with('/')) {
    // Some name it as the agent would, without what the url of the backend begins with.
    auto here = PathHere(backend, location);
    return here || location.starts_with("//") ? here : std::optional(std::string(location));
  }
  const auto name = location.substr(0, location.find_first_of("?/"));
  if (name.find(':') != name.npos || name.starts_with('.')) return std::nullopt;
  return std::string(path.substr(0, path.rfind('/') + 1)) + std::string(location);
}

}  // namespace recourse
