#include "filters/redirect.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "policy/addresses.h"
#include "policy/authority.h"
#include "policy/route_table.h"
#include "proxy/base/http_message.h"

namespace recourse {
namespace {

struct RedirectTarget {
  std::string scheme;
  Authority authority;
  std::string_view rest;  // path, query, fragment
};

// nullopt: a relative reference, which leads to whoever the client asked, or nothing that a client
// could follow over HTTP.
std::optional<RedirectTarget> AbsoluteTarget(std::string_view location,
                                             std::string_view own_scheme) {
  RedirectTarget target;
  const auto colon = location.find("://");
  if (location.starts_with("//")) {
    target.scheme = own_scheme;
    location.remove_prefix(2);
  } else if (colon != std::string_view::npos) {
    target.scheme = ToLower(location.substr(0, colon));
    location.remove_prefix(colon + 3);
  }
  if (target.scheme != "http" && target.scheme != "https") return std::nullopt;
  const auto end = std::min(location.find_first_of("/?#"), location.size());
  std::string_view authority = location.substr(0, end);
  if (const auto at = authority.rfind('@'); at != std::string_view::npos) {
    authority.remove_prefix(at + 1);
  }
  target.authority = ParseAuthority(authority).value_or(Authority());
  if (target.authority.port == 0) target.authority.port = target.scheme == "https" ? 443 : 80;
  target.rest = location.substr(end);
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
  const std::string_view path =
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
