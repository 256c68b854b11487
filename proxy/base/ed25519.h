// Signatures that anybody can check with a public key: Ed25519, over OpenSSL.
#pragma once

#include <openssl/evp.h>

#include <expected>
#include <memory>
#include <string>
#include <string_view>

namespace recourse {

struct EvpKeyFree {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using EvpKeyPtr = std::unique_ptr<EVP_PKEY, EvpKeyFree>;

// Both take PEM, without a passphrase. Fail with a line for people that says what it should be.
std::expected<EvpKeyPtr, std::string> ReadSigningKey(std::string_view pem);
std::expected<EvpKeyPtr, std::string> ReadVerifyingKey(std::string_view pem);

// 64 bytes; empty when OpenSSL fails.
std::string SignEd25519(EVP_PKEY& key, std::string_view text);
bool IsSignedEd25519(EVP_PKEY& key, std::string_view text, std::string_view signature);

}  // namespace recourse
