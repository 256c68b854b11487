#include "proxy/net/tls/pod_ca.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>

#include "proxy/base/ca_limits.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/crypto/openssl_objects.h"

namespace recourse {
namespace {

constexpr const char* kOrganization = "Recourse";
constexpr std::string_view kNobody = "invalid";  // no name of anybody's (RFC 6761)
constexpr std::size_t kCommonNameMax = 64;       // RFC 5280, ub-common-name

using ConstraintsPtr = std::unique_ptr<NAME_CONSTRAINTS, OpensslFree<NAME_CONSTRAINTS_free>>;

KeyPtr ReadKey(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  KeyPtr key(bio == nullptr ? nullptr
                            : PEM_read_bio_PrivateKey(bio.get(), nullptr, &NoPassphrase, nullptr));
  ERR_clear_error();
  return key;
}

// Tells two CAs apart whose pods have the same name.
std::string ShortNameOf(const EVP_PKEY& key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(&key, &der);
  if (size <= 0) return {};
  const Digest digest =
      Sha256({reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)});
  OPENSSL_free(der);
  return ToHex({reinterpret_cast<const char*>(digest.data()), 4});
}

std::string CommonNameOf(const std::string& pod, const EVP_PKEY& key) {
  const std::string prefix = "Recourse CA of ", suffix = " " + ShortNameOf(key);
  return prefix + pod.substr(0, kCommonNameMax - prefix.size() - suffix.size()) + suffix;
}

// A kind of name that nothing is said about would be free: so nothing of the other kind is
// permitted.
std::string ConstraintsFor(const std::vector<std::string>& hosts) {
  std::string names, addresses;
  for (const std::string& host : hosts) {
    const std::string name = AltNameOf(host);
    if (name.empty()) return {};
    if (name.starts_with("DNS:")) {
      names += ",permitted;" + name;
    } else {
      const bool is_v6 = host.find(':') != std::string::npos;
      addresses += ",permitted;" + name +
                   (is_v6 ? "/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" : "/255.255.255.255");
    }
  }
  if (names.empty()) names = ",permitted;DNS:" + std::string(kNobody);
  if (addresses.empty()) {
    addresses = ",excluded;IP:0.0.0.0/0.0.0.0,excluded;IP:::/::";
  }
  return "critical" + names + addresses;
}

bool IsSelfSigned(X509& certificate, EVP_PKEY& key) {
  return X509_check_issued(&certificate, &certificate) == X509_V_OK &&
         X509_verify(&certificate, &key) == 1;
}

bool HasOurSubject(X509& certificate) {
  X509_NAME* const subject = X509_get_subject_name(&certificate);
  char text[kCommonNameMax + 1] = {};
  X509_NAME_get_text_by_NID(subject, NID_organizationName, text, sizeof text);
  return std::string_view(text) == kOrganization;
}

// Null: there are none.
ConstraintsPtr ConstraintsOf(const X509& certificate) {
  ConstraintsPtr constraints(static_cast<NAME_CONSTRAINTS*>(
      X509_get_ext_d2i(&certificate, NID_name_constraints, nullptr, nullptr)));
  ERR_clear_error();
  return constraints;
}

// One that ConstraintsFor has named; empty: it has not.
std::string HostOf(const GENERAL_NAME& name) {
  if (name.type == GEN_DNS) {
    std::string host = Asn1Text(*name.d.dNSName);
    return host == kNobody ? std::string() : host;
  }
  if (name.type != GEN_IPADD) return {};
  const std::string address = Asn1Text(*name.d.iPAddress);  // and a mask of the same size
  if (address.size() != 2 * sizeof(in_addr) && address.size() != 2 * sizeof(in6_addr)) return {};
  const int family = address.size() == 2 * sizeof(in_addr) ? AF_INET : AF_INET6;
  char text[INET6_ADDRSTRLEN] = {};
  return inet_ntop(family, address.data(), text, sizeof text) == nullptr ? "" : text;
}

// Whether one name may stand in a certificate under these constraints.
bool Permits(NAME_CONSTRAINTS& constraints, const std::string& host) {
  const X509Ptr sample(X509_new());
  const std::string name = AltNameOf(host);
  if (sample == nullptr || name.empty() ||
      !AddExtension(*sample, *sample, NID_subject_alt_name, name)) {
    return false;
  }
  X509_check_purpose(sample.get(), -1, 0);  // has OpenSSL look at the extension that was added
  const bool is_permitted = NAME_CONSTRAINTS_check(sample.get(), &constraints) == X509_V_OK;
  ERR_clear_error();
  return is_permitted;
}

}  // namespace

std::string PodCa::NewKey() {
  const KeyPtr key = NewP256Key();
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (key == nullptr || bio == nullptr ||
      PEM_write_bio_PKCS8PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) !=
          1) {
    return {};
  }
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

std::expected<std::string, std::string> PodCa::NewCertificatePem(const std::string& key_pem,
                                                                 const CaWish& wish,
                                                                 Random& random) {
  const KeyPtr key = ReadKey(key_pem);
  if (key == nullptr) {
    return std::unexpected("is not a private key in PEM form without passphrase");
  }
  const CertificateFacts facts{.organization = kOrganization,
                               .common_name = CommonNameOf(wish.name, *key),
                               .not_before = wish.now - limits::kCertificateBackdate,
                               .not_after = wish.now + wish.life};
  const X509Ptr made = NewCertificate(facts, *key, random);
  bool is_done = made != nullptr &&
                 X509_set_issuer_name(made.get(), X509_get_subject_name(made.get())) == 1 &&
                 AddExtension(*made, *made, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                 AddExtension(*made, *made, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                 AddExtension(*made, *made, NID_subject_key_identifier, "hash");
  if (is_done && wish.hosts) {
    const std::string constraints = ConstraintsFor(*wish.hosts);
    is_done = !constraints.empty() && AddExtension(*made, *made, NID_name_constraints, constraints);
  }
  is_done = is_done && X509_sign(made.get(), key.get(), EVP_sha256()) > 0;
  ERR_clear_error();
  if (!is_done) return std::unexpected("cannot sign a CA certificate");
  return ToPem(*made);
}

std::expected<std::shared_ptr<const PodCa>, std::string> PodCa::Read(
    const std::string& certificate_pem, const std::string& key_pem) {
  std::shared_ptr<PodCa> ca(new PodCa);
  ca->chain_ = CertificatesIn(certificate_pem);
  if (ca->chain_.empty()) return std::unexpected("is not a certificate in PEM form");
  ca->key_ = ReadKey(key_pem);
  if (ca->key_ == nullptr) {
    return std::unexpected("has no private key in PEM form without passphrase beside it");
  }
  X509& own = ca->certificate();
  if (X509_check_private_key(&own, ca->key_.get()) != 1) {
    ERR_clear_error();
    return std::unexpected("is the certificate of another key than the one beside it");
  }
  if (X509_check_ca(&own) == 0 || (X509_get_key_usage(&own) & KU_KEY_CERT_SIGN) == 0) {
    return std::unexpected("is not the certificate of a CA, which may sign others");
  }
  ca->is_root_ = IsSelfSigned(own, *ca->key_);
  ca->is_ours_ = ca->is_root_ && HasOurSubject(own);
  ERR_clear_error();
  return ca;
}

std::string PodCa::Pem() const {
  std::string text;
  for (const X509Ptr& certificate : chain_) text += ToPem(*certificate);
  return text;
}

std::string PodCa::Forbidden(const std::vector<std::string>& hosts) const {
  const ConstraintsPtr constraints = ConstraintsOf(certificate());
  if (constraints == nullptr) return {};
  const auto found = std::ranges::find_if_not(
      hosts, [&](const std::string& host) { return Permits(*constraints, host); });
  return found == hosts.end() ? std::string() : *found;
}

std::vector<std::string> PodCa::Permitted() const {
  std::vector<std::string> hosts;
  const ConstraintsPtr constraints = ConstraintsOf(certificate());
  if (constraints == nullptr) return hosts;
  const auto* const trees = constraints->permittedSubtrees;
  for (int at = 0; at < sk_GENERAL_SUBTREE_num(trees); ++at) {
    std::string host = HostOf(*sk_GENERAL_SUBTREE_value(trees, at)->base);
    if (!host.empty()) hosts.push_back(std::move(host));
  }
  return hosts;
}

}  // namespace recourse
