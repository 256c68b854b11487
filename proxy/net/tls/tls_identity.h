// Who a client is, by the certificate it showed. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace recourse {

// The names in a certificate, as they stand there.
struct CertificateNames {
  std::vector<std::string> uris;  // of the subjectAltName, in order
  std::vector<std::string> dns;
  std::string common_name;
};

// The caller's identity: the SPIFFE ID, else "dns:" and the first DNS name, else "cn:" and the
// subject's common name; the prefix keeps one kind from posing as another. Empty when there is none
// that can be told apart safely: two SPIFFE IDs, or a name that is empty, longer than
// kCallerBytesMax or holds anything but printable ASCII without quotes and backslashes.
std::optional<std::string> IdentityOf(const CertificateNames& names);

}  // namespace recourse
