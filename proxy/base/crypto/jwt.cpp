#include "proxy/base/crypto/jwt.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "proxy/base/crypto/base64url.h"
#include "proxy/base/crypto/openssl_objects.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::size_t kEs256Half = 32;

// JWS writes ES256 as R and S, 32 bytes each (RFC 7518 3.4); OpenSSL reads DER.
std::optional<std::string> ToDer(std::string_view raw) {
  if (raw.size() != 2 * kEs256Half) return std::nullopt;
  const std::unique_ptr<ECDSA_SIG, OpensslFree<ECDSA_SIG_free>> signature(ECDSA_SIG_new());
  BIGNUM* const r = BN_bin2bn(OpensslBytes(raw), kEs256Half, nullptr);
  BIGNUM* const s = BN_bin2bn(OpensslBytes(raw) + kEs256Half, kEs256Half, nullptr);
  if (signature == nullptr || r == nullptr || s == nullptr ||
      ECDSA_SIG_set0(signature.get(), r, s) != 1) {
    BN_free(r);
    BN_free(s);
    return std::nullopt;
  }
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(signature.get(), &der);
  if (size <= 0) return std::nullopt;
  std::string text(reinterpret_cast<const char*>(der), static_cast<std::size_t>(size));
  OPENSSL_free(der);
  return text;
}

std::optional<Json> DecodeObject(std::string_view part) {
  const auto text = FromBase64Url(part);
  if (!text) return std::nullopt;
  auto json = ParseJson(*text);
  if (!json || json->kind != Json::Kind::kObject) return std::nullopt;
  return std::move(*json);
}

// Seconds since 1970; what stands behind the point does not matter.
std::optional<std::int64_t> SecondsOf(const Json* value) {
  if (value == nullptr || value->kind != Json::Kind::kNumber) return std::nullopt;
  const std::string text = ScalarText(*value);
  std::int64_t seconds = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, seconds);
  if (error != std::errc() || (end != last && *end != '.')) return std::nullopt;
  return seconds;
}

bool IsText(const Json* value, std::string_view text) {
  return value != nullptr && value->kind == Json::Kind::kString && value->text == text;
}

bool IsFor(const Json* audience, std::string_view name) {
  if (audience == nullptr || audience->kind != Json::Kind::kArray) return IsText(audience, name);
  return std::any_of(audience->items.begin(), audience->items.end(),
                     [&](const Json& item) { return IsText(&item, name); });
}

}  // namespace

bool LooksLikeJwt(std::string_view token) {
  return std::count(token.begin(), token.end(), '.') == 2;
}

std::expected<Jwt, std::string> ParseJwt(std::string_view token) {
  if (token.size() > limits::kJwtBytesMax) return std::unexpected("the token is over 12 KiB");
  const auto first = token.find('.');
  const auto last = token.rfind('.');
  if (!LooksLikeJwt(token)) return std::unexpected("the token does not have three parts");
  const auto head = DecodeObject(token.substr(0, first));
  auto claims = DecodeObject(token.substr(first + 1, last - first - 1));
  auto signature = FromBase64Url(token.substr(last + 1));
  if (!head || !claims || !signature || signature->empty()) {
    return std::unexpected(
        "the token is no signed JWT: base64url of two JSON objects without "
        "duplicate members, and of a signature");
  }
  Jwt jwt;
  const Json* const algorithm = head->Find("alg");
  if (IsText(algorithm, "RS256")) {
    jwt.algorithm = JwtAlgorithm::kRs256;
  } else if (IsText(algorithm, "ES256")) {
    jwt.algorithm = JwtAlgorithm::kEs256;
  } else {
    return std::unexpected("the token's algorithm is not accepted; accepted: RS256, ES256");
  }
  if (head->Find("crit") != nullptr) {
    return std::unexpected("the token has critical extensions, and none is understood");
  }
  if (const Json* const kid = head->Find("kid")) {
    if (kid->kind != Json::Kind::kString || kid->text.empty()) {
      return std::unexpected("the token's kid is no text");
    }
    jwt.kid = kid->text;
  }
  jwt.signed_part = token.substr(0, last);
  jwt.signature = std::move(*signature);
  jwt.claims = std::move(*claims);
  return jwt;
}

const Jwk* FindKey(const JwkSet& keys, const Jwt& jwt) {
  const Jwk* found = nullptr;
  for (const Jwk& key : keys) {
    if (key.algorithm != jwt.algorithm || (!jwt.kid.empty() && key.kid != jwt.kid)) continue;
    if (found != nullptr && jwt.kid.empty()) return nullptr;  // which one, nobody said
    if (found == nullptr) found = &key;
  }
  return found;
}

bool HasSignature(const Jwt& jwt, const Jwk& key) {
  if (key.algorithm != jwt.algorithm) return false;
  std::string signature = jwt.signature;
  if (jwt.algorithm == JwtAlgorithm::kEs256) {
    auto der = ToDer(jwt.signature);
    if (!der) return false;
    signature = std::move(*der);
  }
  const DigestContextPtr context(EVP_MD_CTX_new());
  const bool is_good =
      context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key.key.get()) == 1 &&
      EVP_DigestVerify(context.get(), OpensslBytes(signature), signature.size(),
                       OpensslBytes(jwt.signed_part), jwt.signed_part.size()) == 1;
  ERR_clear_error();
  return is_good;
}

const Json* ClaimOf(const Json& claims, const std::string& name) {
  return name.starts_with('/') ? AtPointer(claims, name) : claims.Find(name);
}

std::expected<void, std::string> JudgeClaims(const Json& claims, std::string_view issuer,
                                             std::string_view audience, WallTime now) {
  if (!IsText(claims.Find("iss"), issuer)) {
    return std::unexpected("the token is of another issuer (iss)");
  }
  if (!IsFor(claims.Find("aud"), audience)) {
    return std::unexpected("the token is for another audience (aud)");
  }
  const std::int64_t now_s = ToUnixMillis(now) / 1000;
  constexpr std::int64_t kSkew = limits::kJwtSkew.count() / 1000;
  const auto expires = SecondsOf(claims.Find("exp"));
  if (!expires) return std::unexpected("the token has no time of expiry (exp)");
  if (*expires <= now_s - kSkew) return std::unexpected("the token has expired; get a new one");
  if (const Json* const not_before = claims.Find("nbf")) {
    const auto begins = SecondsOf(not_before);
    if (!begins) return std::unexpected("the token's nbf is no time");
    if (*begins > now_s + kSkew) return std::unexpected("the token is not valid yet (nbf)");
  }
  return {};
}

}  // namespace recourse
