#include "proxy/net/tls/leaf_issuer.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <algorithm>

#include "proxy/base/ca_limits.h"

namespace recourse {

X509Ptr MintLeaf(const PodCa& ca, EVP_PKEY& key, const std::string& host, WallTime now,
                 Random& random) {
  const std::string name = AltNameOf(host);
  if (name.empty()) return nullptr;
  // An address in the common name would be judged as a DNS name by name constraints, and a long
  // name does not fit: clients look at the subjectAltName alone.
  const bool fits = name.starts_with("DNS:") && host.size() <= 64;
  X509Ptr leaf = NewCertificate({.organization = "Recourse",
                                 .common_name = fits ? host : std::string(),
                                 .not_before = now - limits::kCertificateBackdate,
                                 .not_after = std::min(now + limits::kLeafLife, ca.end())},
                                key, random);
  if (leaf == nullptr) return nullptr;
  X509& made = *leaf;
  X509& issuer = ca.certificate();
  const bool is_done = X509_set_issuer_name(&made, X509_get_subject_name(&issuer)) == 1 &&
                       AddExtension(made, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
                       AddExtension(made, issuer, NID_key_usage, "critical,digitalSignature") &&
                       AddExtension(made, issuer, NID_ext_key_usage, "serverAuth") &&
                       AddExtension(made, issuer, NID_subject_alt_name, name) &&
                       AddExtension(made, issuer, NID_subject_key_identifier, "hash") &&
                       AddExtension(made, issuer, NID_authority_key_identifier, "keyid") &&
                       X509_sign(&made, &ca.key(), EVP_sha256()) > 0;
  ERR_clear_error();
  return is_done ? std::move(leaf) : nullptr;
}

void LeafIssuer::Use(std::shared_ptr<const PodCa> ca) {
  const std::lock_guard lock(mutex_);
  ca_ = std::move(ca);
  by_host_.clear();
  leaves_.clear();
}

std::expected<std::shared_ptr<const TlsServer>, std::string> LeafIssuer::For(
    const std::string& host) {
  const std::lock_guard lock(mutex_);
  if (const auto found = by_host_.find(host); found != by_host_.end()) {
    const auto leaf = found->second;
    const WallTime now = clock_.WallNow();  // which may have been set back
    if (leaf->begin <= now && now < leaf->renew_at) {
      leaves_.splice(leaves_.begin(), leaves_, leaf);
      return leaf->server;
    }
    by_host_.erase(found);
    leaves_.erase(leaf);
  }
  auto minted = Mint(host);
  if (!minted) return std::unexpected(std::move(minted.error()));
  leaves_.push_front(std::move(*minted));
  by_host_.emplace(leaves_.front().host, leaves_.begin());
  if (leaves_.size() > limits::kLeavesMax) {
    by_host_.erase(leaves_.back().host);
    leaves_.pop_back();
  }
  return leaves_.front().server;
}

std::expected<LeafIssuer::Leaf, std::string> LeafIssuer::Mint(const std::string& host) {
  const WallTime now = clock_.WallNow();
  if (ca_ == nullptr) return std::unexpected("there is no CA to sign for it");
  if (ca_->end() <= now) return std::unexpected("the CA has expired");
  if (key_ == nullptr) key_ = NewP256Key();
  const X509Ptr certificate = key_ == nullptr ? nullptr : MintLeaf(*ca_, *key_, host, now, random_);
  if (certificate == nullptr) return std::unexpected("OpenSSL cannot make a certificate for it");
  auto server = TlsServer::MakeFor(*certificate, *key_, ca_->is_root() ? nullptr : &ca_->chain());
  if (server == nullptr) return std::unexpected("OpenSSL cannot make a TLS context");
  const auto life = EndOf(*certificate) - now;
  return Leaf{.host = host,
              .server = std::move(server),
              .begin = BeginOf(*certificate),
              .renew_at = now + life * (limits::kRenewalPart - 1) / limits::kRenewalPart};
}

}  // namespace recourse
