#include "proxy/net/tls/x509.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace recourse {
namespace {

bool SetSerial(X509& certificate, Random& random) {
  std::array<unsigned char, 16> bytes{};
  random.Fill(bytes);
  bytes[0] &= 0x7f;  // positive, and never longer than 20 octets (RFC 5280 4.1.2.2)
  bytes[15] |= 1;    // never zero
  const std::unique_ptr<BIGNUM, OpensslFree<BN_free>> number(
      BN_bin2bn(bytes.data(), bytes.size(), nullptr));
  return number != nullptr &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(&certificate)) != nullptr;
}

bool AddName(X509_NAME* name, int nid, const std::string& text) {
  return text.empty() ||
         X509_NAME_add_entry_by_NID(name, nid, MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

bool SetTime(ASN1_TIME* out, WallTime when) {
  return ASN1_TIME_set(out, std::chrono::system_clock::to_time_t(when)) != nullptr;
}

WallTime TimeOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
  // What has no end says 9999, which WallTime cannot; two of these can be subtracted.
  constexpr std::time_t kFirst = 0, kLast = 8'000'000'000;  // 1970, 2223
  return std::chrono::system_clock::from_time_t(std::clamp(::timegm(&parts), kFirst, kLast));
}

// What OpenSSL's configuration language would read as more than a name.
bool IsPlainName(std::string_view host) {
  return !host.empty() && host.size() <= 253 && std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
  });
}

}  // namespace

KeyPtr NewP256Key() {
  KeyPtr key(EVP_EC_gen("P-256"));
  ERR_clear_error();
  return key;
}

X509Ptr NewCertificate(const CertificateFacts& facts, EVP_PKEY& key, Random& random) {
  X509Ptr certificate(X509_new());
  X509* const made = certificate.get();
  if (made == nullptr) return nullptr;
  X509_NAME* const subject = X509_get_subject_name(made);
  const bool is_done = X509_set_version(made, X509_VERSION_3) == 1 && SetSerial(*made, random) &&
                       SetTime(X509_getm_notBefore(made), facts.not_before) &&
                       SetTime(X509_getm_notAfter(made), facts.not_after) &&
                       AddName(subject, NID_organizationName, facts.organization) &&
                       AddName(subject, NID_commonName, facts.common_name) &&
                       X509_set_pubkey(made, &key) == 1;
  ERR_clear_error();
  return is_done ? std::move(certificate) : nullptr;
}

bool AddExtension(X509& certificate, X509& issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, OpensslFree<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  const bool is_added =
      extension != nullptr && X509_add_ext(&certificate, extension.get(), -1) == 1;
  ERR_clear_error();
  return is_added;
}

WallTime EndOf(const X509& certificate) { return TimeOf(X509_get0_notAfter(&certificate)); }
WallTime BeginOf(const X509& certificate) { return TimeOf(X509_get0_notBefore(&certificate)); }

std::vector<X509Ptr> CertificatesIn(std::string_view pem) {
  std::vector<X509Ptr> certificates;
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (bio != nullptr) {
    X509Ptr next(PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr));
    if (next == nullptr) break;
    certificates.push_back(std::move(next));
  }
  ERR_clear_error();
  return certificates;
}

std::string ToPem(X509& certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_X509(bio.get(), &certificate) != 1) return {};
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

std::string Asn1Text(const ASN1_STRING& text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(&text)),
          static_cast<std::size_t>(ASN1_STRING_length(&text))};
}

std::string AltNameOf(const std::string& host) {
  in6_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1 ||
      inet_pton(AF_INET6, host.c_str(), &address) == 1) {
    return "IP:" + host;
  }
  return IsPlainName(host) ? "DNS:" + host : std::string();
}

}  // namespace recourse
