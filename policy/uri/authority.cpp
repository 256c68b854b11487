#include "policy/uri/authority.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>

#include "policy/uri/path.h"
#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

bool IsV6(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}
bool IsV4(const std::string& host) {
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

// 0x7f.1 and 2130706433 are addresses to some resolvers and names to others: refused.
bool LooksNumeric(std::string_view host) {
  const std::string_view last = host.substr(host.rfind('.') + 1);
  return last.starts_with("0x") || last.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

bool IsHostName(std::string_view host) {
  if (host.empty() || host.size() > 253 || host.starts_with('.') || host.starts_with('-')) {
    return false;
  }
  if (host.find("..") != std::string_view::npos || host.ends_with('.')) return false;
  return std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
  });
}

std::optional<Authority> ParseAuthority(std::string_view text) {
  Authority out;
  std::string_view port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    out.host = ToLower(text.substr(1, end - 1));
    if (!IsV6(out.host)) return std::nullopt;
    port = text.substr(end + 1);
    if (!port.empty() && port[0] != ':') return std::nullopt;
  } else {
    const auto colon = text.find(':');
    out.host = ToLower(text.substr(0, colon));
    const bool good = IsHostName(out.host) && (!LooksNumeric(out.host) || IsV4(out.host));
    if (!good) return std::nullopt;
    port = colon == std::string_view::npos ? std::string_view() : text.substr(colon);
  }
  if (port.empty()) return out;
  port.remove_prefix(1);
  const auto [end, ec] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (ec != std::errc() || end != port.data() + port.size() || out.port == 0) return std::nullopt;
  return out;
}

std::string Bracketed(const std::string& host) {
  return host.find(':') == std::string::npos ? host : '[' + host + ']';
}

}  // namespace recourse
