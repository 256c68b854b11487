// The keys of an issuer of tokens (RFC 7517), those of them that can verify RS256 or ES256.
#pragma once

#include <openssl/evp.h>

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace recourse {

// RSASSA-PKCS1-v1_5 with SHA-256, and ECDSA on P-256 with SHA-256 (RFC 7518 3.1). No other is
// taken: not none, and no HMAC, whose key would be public.
enum class JwtAlgorithm : std::uint8_t { kRs256, kEs256 };

// The type of the key alone says what it verifies, so that no token can choose.
struct Jwk {
  std::string kid;  // may be empty
  JwtAlgorithm algorithm = JwtAlgorithm::kRs256;
  std::shared_ptr<EVP_PKEY> key;
};

using JwkSet = std::vector<Jwk>;

// Keys of other types and uses are left out, as issuers add them. Fails with a sentence when the
// text is no JWKS, has too many keys or none that can be used; the sentence says why the first one
// was left out.
std::expected<JwkSet, std::string> ParseJwks(std::string_view text);

}  // namespace recourse
