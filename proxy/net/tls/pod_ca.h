// The certificate authority of one pod: it signs what agents are shown for intercepted hosts.
// Values alone; proxy/ca/ca_directory keeps it in files.
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/net/tls/x509.h"

namespace recourse {

struct CaWish {
  std::string name;  // of the pod, for people
  // That it may sign for; empty: none, nothing: any.
  std::optional<std::vector<std::string>> hosts;
  WallTime now;
  Millis life{};
};

// A certificate with its key. Immutable, shared by all threads.
class PodCa {
 public:
  // A new key, PEM. Empty when OpenSSL fails.
  static std::string NewKey();
  // A self-signed certificate for that key, PEM: no CA below it, valid from a little ago, for the
  // wished hosts alone (and names below them). Another one for the same key keeps its subject, so
  // that whoever trusts the one trusts what is signed under the other. Fails with a sentence.
  static std::expected<std::string, std::string> NewCertificatePem(const std::string& key_pem,
                                                                   const CaWish& wish,
                                                                   Random& random);
  // A CA with its chain, if any, after it. Fails with a sentence that begins with a verb: "is not
  // ...".
  static std::expected<std::shared_ptr<const PodCa>, std::string> Read(
      const std::string& certificate_pem, const std::string& key_pem);

  X509& certificate() const { return *chain_.front(); }
  EVP_PKEY& key() const { return *key_; }
  // Itself and what is above it, as read.
  const std::vector<X509Ptr>& chain() const { return chain_; }
  std::string Pem() const;
  WallTime end() const { return EndOf(certificate()); }
  WallTime begin() const { return BeginOf(certificate()); }
  // Made by NewCertificatePem, so a new one for the same key can take its place.
  bool is_ours() const { return is_ours_; }
  // Self-signed: what agents have to trust.
  bool is_root() const { return is_root_; }
  // The first host that its name constraints forbid; empty: it may sign for all of them.
  std::string Forbidden(const std::vector<std::string>& hosts) const;
  // The hosts that NewCertificatePem has named in its constraints; none when it may sign for any.
  std::vector<std::string> Permitted() const;

 private:
  PodCa() = default;

  std::vector<X509Ptr> chain_;
  KeyPtr key_;
  bool is_ours_ = false, is_root_ = false;
};

}  // namespace recourse
