#include "proxy/admin/access/csrf_guard.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

namespace recourse {
namespace {

constexpr std::size_t kCookiesMax = 4;

bool IsPort(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Without port and brackets, in lower case; empty: not HOST[:PORT].
std::string HostOf(std::string_view field) {
  std::string_view host = field;
  std::string_view port = "0";
  if (field.starts_with('[')) {
    const auto end = field.find(']');
    if (end == std::string_view::npos) return {};
    host = field.substr(1, end - 1);
    if (end + 1 < field.size()) {
      if (field[end + 1] != ':') return {};
      port = field.substr(end + 2);
    }
  } else if (const auto colon = field.find(':'); colon != std::string_view::npos) {
    host = field.substr(0, colon);
    port = field.substr(colon + 1);
  }
  return IsPort(port) ? ToLower(host) : std::string();
}

bool IsAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> out{};
  return inet_pton(AF_INET, host.c_str(), out.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), out.data()) == 1;
}

}  // namespace

bool IsOwnHost(std::string_view host_field, const std::vector<std::string>& hosts) {
  const std::string host = HostOf(host_field);
  if (host.empty()) return false;
  return host == "localhost" || IsAddress(host) ||
         std::find(hosts.begin(), hosts.end(), host) != hosts.end();
}

Origin OriginOf(const Headers& headers, bool is_secure) {
  const std::string* const site = FindHeader(headers, "Sec-Fetch-Site");
  const std::string* const origin = FindHeader(headers, "Origin");
  const std::string* const host = FindHeader(headers, "Host");
  if (site == nullptr && origin == nullptr) return Origin::kUnsaid;
  if (site != nullptr && *site != "same-origin") return Origin::kForeign;
  if (origin == nullptr) return Origin::kOwn;
  constexpr std::string_view kHttps = "https://", kHttp = "http://";
  std::string_view authority = *origin;
  if (authority.starts_with(kHttps)) {
    authority.remove_prefix(kHttps.size());
  } else if (!is_secure && authority.starts_with(kHttp)) {
    authority.remove_prefix(kHttp.size());
  } else {
    return Origin::kForeign;
  }
  const bool is_own = host != nullptr && EqualsIgnoreCase(authority, *host);
  return is_own ? Origin::kOwn : Origin::kForeign;
}

std::vector<std::string_view> CookiesOf(const Headers& headers, std::string_view name) {
  std::vector<std::string_view> values;
  for (const auto& [field, text] : headers) {
    if (!EqualsIgnoreCase(field, "Cookie")) continue;
    std::string_view rest = text;
    while (!rest.empty() && values.size() < kCookiesMax) {
      const auto end = rest.find(';');
      const std::string_view pair = TrimBlanks(rest.substr(0, end));
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
      const auto equals = pair.find('=');
      if (equals != std::string_view::npos && pair.substr(0, equals) == name) {
        values.push_back(pair.substr(equals + 1));
      }
    }
  }
  return values;
}

}  // namespace recourse
