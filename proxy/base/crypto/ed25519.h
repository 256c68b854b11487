// Signatures that anybody can check with a public key: Ed25519, over OpenSSL.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "proxy/base/crypto/openssl_objects.h"

namespace recourse {

// Both take PEM, without a passphrase. Fail with a line for people that says what it should be.
std::expected<KeyPtr, std::string> ReadSigningKey(std::string_view pem);
std::expected<KeyPtr, std::string> ReadVerifyingKey(std::string_view pem);

// 64 bytes; empty when OpenSSL fails.
std::string SignEd25519(EVP_PKEY& key, std::string_view text);
bool IsSignedEd25519(EVP_PKEY& key, std::string_view text, std::string_view signature);

}  // namespace recourse
