// Signed tokens of an issuer (RFC 7515, 7519), as OIDC providers give them. Pure.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "proxy/base/clock.h"
#include "proxy/base/crypto/jwk.h"
#include "proxy/base/json/json.h"

namespace recourse {

// A token as it was written; nothing in it is true before its signature is verified.
struct Jwt {
  JwtAlgorithm algorithm = JwtAlgorithm::kRs256;
  std::string kid;  // empty: it names no key
  std::string signed_part, signature;
  Json claims;
};

// Whether a bearer token looks like one: three parts.
bool LooksLikeJwt(std::string_view token);

// Errors of these are sentences for whoever sent the token, without any part of it.
// Refuses other algorithms, critical extensions (`crit`), duplicate members and too many bytes.
std::expected<Jwt, std::string> ParseJwt(std::string_view token);

// The key that the token names; without a kid the only one of its algorithm. Null: there is none.
const Jwk* FindKey(const JwkSet& keys, const Jwt& jwt);

// Whether `key` made the signature. A key of another algorithm never did.
bool HasSignature(const Jwt& jwt, const Jwk& key);

// The claim of that name; of a name that begins with '/' the value at that JSON pointer. Null:
// there is none.
const Json* ClaimOf(const Json& claims, const std::string& name);

// Whether a token with a good signature holds: iss, aud (a text or a list), exp (which it must
// have) and nbf with kJwtSkew.
std::expected<void, std::string> JudgeClaims(const Json& claims, std::string_view issuer,
                                             std::string_view audience, WallTime now);

}  // namespace recourse
