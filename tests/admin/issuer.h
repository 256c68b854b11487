// An issuer of tokens with fresh keys.
#pragma once

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/crypto/base64url.h"
#include "proxy/base/crypto/jwt.h"

namespace recourse {

class IssuerKey {
 public:
  // RSA of so many bits, or P-256 for 0.
  explicit IssuerKey(std::string kid, unsigned rsa_bits = 0)
      : kid_(std::move(kid)),
        is_rsa_(rsa_bits > 0),
        key_(is_rsa_ ? EVP_RSA_gen(rsa_bits) : EVP_EC_gen("P-256"), &EVP_PKEY_free) {}

  std::string Jwk(std::string_view more = "") const {
    std::string text = R"({"kid":")" + kid_ + "\"" + std::string(more);
    if (is_rsa_) {
      return text + R"(,"kty":"RSA","n":")" + NumberOf(OSSL_PKEY_PARAM_RSA_N) + R"(","e":")" +
             NumberOf(OSSL_PKEY_PARAM_RSA_E) + "\"}";
    }
    std::array<unsigned char, 65> point{};
    std::size_t size = 0;
    EVP_PKEY_get_octet_string_param(key_.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size(),
                                    &size);
    const std::string_view bytes(reinterpret_cast<const char*>(point.data()), point.size());
    return text + R"(,"kty":"EC","crv":"P-256","x":")" + ToBase64Url(bytes.substr(1, 32)) +
           R"(","y":")" + ToBase64Url(bytes.substr(33)) + "\"}";
  }
  std::string Head() const {
    return std::string(R"({"alg":")") + (is_rsa_ ? "RS256" : "ES256") + R"(","kid":")" + kid_ +
           "\"}";
  }
  std::string Sign(std::string_view head, std::string_view claims) const {
    const std::string text = ToBase64Url(head) + "." + ToBase64Url(claims);
    const std::string signature = SignatureOf(text);
    return text + "." + ToBase64Url(is_rsa_ ? signature : RawOf(signature));
  }
  std::string Sign(std::string_view claims) const { return Sign(Head(), claims); }

 private:
  std::string NumberOf(const char* name) const {
    BIGNUM* number = nullptr;
    EVP_PKEY_get_bn_param(key_.get(), name, &number);
    std::vector<unsigned char> bytes(static_cast<std::size_t>(BN_num_bytes(number)));
    BN_bn2bin(number, bytes.data());
    BN_free(number);
    return ToBase64Url({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  std::string SignatureOf(std::string_view text) const {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          &EVP_MD_CTX_free);
    EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get());
    std::string out(1'024, '\0');
    std::size_t size = out.size();
    EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(out.data()), &size,
                   reinterpret_cast<const unsigned char*>(text.data()), text.size());
    out.resize(size);
    return out;
  }
  static std::string RawOf(const std::string& der) {
    const auto* at = reinterpret_cast<const unsigned char*>(der.data());
    const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> signature(
        d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size())), &ECDSA_SIG_free);
    std::string raw(64, '\0');
    auto* const out = reinterpret_cast<unsigned char*>(raw.data());
    BN_bn2binpad(ECDSA_SIG_get0_r(signature.get()), out, 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(signature.get()), out + 32, 32);
    return raw;
  }

  const std::string kid_;
  const bool is_rsa_;
  const std::shared_ptr<EVP_PKEY> key_;
};

inline std::string JwksOf(std::initializer_list<std::string> keys) {
  std::string text = R"({"keys":[)";
  for (const std::string& key : keys) text += (text.back() == '[' ? "" : ",") + key;
  return text + "]}";
}

}  // namespace recourse
