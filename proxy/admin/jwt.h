// Signed tokens of an issuer (RFC 7515, 7519), as OIDC providers give them. Pure.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/admin/jwk.h"
#include "proxy/admin/operator_book.h"
#include "proxy/base/clock.h"
#include "proxy/base/json.h"

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

// Errors of all three are sentences for whoever sent the token, without any part of it.
// Refuses other algorithms, critical extensions (`crit`), duplicate members and too many bytes.
std::expected<Jwt, std::string> ParseJwt(std::string_view token);

// The key that the token names; without a kid the only one of its algorithm. Null: there is none.
const Jwk* FindKey(const JwkSet& keys, const Jwt& jwt);

// Whether `key` made the signature. A key of another algorithm never did.
bool HasSignature(const Jwt& jwt, const Jwk& key);

// Who a token with a good signature names, without roles: iss, aud (a text or a list), exp (which
// it must have) and nbf with kJwtSkew, then the claims of the rule.
std::expected<Operator, std::string> JudgeClaims(const Json& claims, const JwtRule& rule,
                                                 WallTime now);

}  // namespace recourse
