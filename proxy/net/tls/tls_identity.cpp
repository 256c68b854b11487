#include "proxy/net/tls/tls_identity.h"

#include <algorithm>

#include "proxy/base/limits.h"

namespace recourse {
namespace {

std::optional<std::string> Checked(std::string_view prefix, std::string_view name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
  });
  if (!plain || name.empty() || prefix.size() + name.size() > limits::kCallerBytesMax) {
    return std::nullopt;
  }
  return std::string(prefix).append(name);
}

}  // namespace

std::optional<std::string> IdentityOf(const CertificateNames& names) {
  const auto is_spiffe = [](const std::string& uri) { return uri.starts_with("spiffe://"); };
  const auto spiffe = std::find_if(names.uris.begin(), names.uris.end(), is_spiffe);
  if (spiffe != names.uris.end()) {
    if (std::find_if(spiffe + 1, names.uris.end(), is_spiffe) != names.uris.end()) {
      return std::nullopt;
    }
    return Checked("", *spiffe);
  }
  if (!names.dns.empty()) return Checked("dns:", names.dns.front());
  return Checked("cn:", names.common_name);
}

}  // namespace recourse
