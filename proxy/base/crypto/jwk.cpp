#include "proxy/base/crypto/jwk.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/param_build.h>

#include <algorithm>

#include "proxy/base/crypto/base64url.h"
#include "proxy/base/crypto/openssl_objects.h"
#include "proxy/base/json/json.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

using Number = std::unique_ptr<BIGNUM, OpensslFree<BN_free>>;
using Builder = std::unique_ptr<OSSL_PARAM_BLD, OpensslFree<OSSL_PARAM_BLD_free>>;
using Params = std::unique_ptr<OSSL_PARAM, OpensslFree<OSSL_PARAM_free>>;
using Context = std::unique_ptr<EVP_PKEY_CTX, OpensslFree<EVP_PKEY_CTX_free>>;
using KeyResult = std::expected<std::shared_ptr<EVP_PKEY>, std::string>;

constexpr std::size_t kP256Bytes = 32;
constexpr std::size_t kExponentBytesMax = 4;

Number NumberOf(std::string_view bytes) {
  return Number(BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()),
                          static_cast<int>(bytes.size()), nullptr));
}

KeyResult MakeKey(const char* type, OSSL_PARAM_BLD* builder) {
  const Params params(OSSL_PARAM_BLD_to_param(builder));
  const Context context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  const bool made = params && context && EVP_PKEY_fromdata_init(context.get()) == 1 &&
                    EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get()) == 1;
  ERR_clear_error();
  if (!made) return std::unexpected("it is no key");
  return std::shared_ptr<EVP_PKEY>(key, &EVP_PKEY_free);
}

KeyResult RsaKey(const Json& jwk) {
  const auto modulus = FromBase64Url(TextOf(jwk, "n"));
  const auto exponent = FromBase64Url(TextOf(jwk, "e"));
  if (!modulus || !exponent || modulus->empty() || exponent->empty() ||
      modulus->size() > limits::kJwksRsaBitsMax / 8 + 1 || exponent->size() > kExponentBytesMax) {
    return std::unexpected("'n' and 'e' are no RSA key of at most 8192 bits");
  }
  const Number n = NumberOf(*modulus), e = NumberOf(*exponent);
  if (!n || !e || BN_num_bits(n.get()) < limits::kJwksRsaBitsMin ||
      BN_num_bits(n.get()) > limits::kJwksRsaBitsMax || BN_is_odd(e.get()) != 1 ||
      BN_is_one(e.get()) == 1) {
    return std::unexpected("an RSA key has 2048 to 8192 bits and an odd exponent above 1");
  }
  const Builder builder(OSSL_PARAM_BLD_new());
  if (!builder || OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1) {
    return std::unexpected("out of memory");
  }
  return MakeKey("RSA", builder.get());
}

KeyResult EcKey(const Json& jwk) {
  const auto x = FromBase64Url(TextOf(jwk, "x"));
  const auto y = FromBase64Url(TextOf(jwk, "y"));
  if (TextOf(jwk, "crv") != "P-256") return std::unexpected("ES256 is on the curve P-256 only");
  if (!x || !y || x->size() != kP256Bytes || y->size() != kP256Bytes) {
    return std::unexpected("'x' and 'y' are no point of 32 bytes each");
  }
  const std::string point = '\x04' + *x + *y;
  const Builder builder(OSSL_PARAM_BLD_new());
  if (!builder ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) !=
          1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                       point.size()) != 1) {
    return std::unexpected("out of memory");
  }
  return MakeKey("EC", builder.get());
}

// Whether the key is there to verify signatures (RFC 7517 4.2, 4.3).
bool IsForSignatures(const Json& jwk) {
  const Json* const use = jwk.Find("use");
  if (use != nullptr && use->text != "sig") return false;
  const Json* const operations = jwk.Find("key_ops");
  return operations == nullptr ||
         std::any_of(operations->items.begin(), operations->items.end(),
                     [](const Json& operation) { return operation.text == "verify"; });
}

std::expected<Jwk, std::string> ReadJwk(const Json& jwk) {
  if (jwk.kind != Json::Kind::kObject) return std::unexpected("it is no object");
  if (!IsForSignatures(jwk)) return std::unexpected("it does not verify signatures");
  const std::string type(TextOf(jwk, "kty"));
  const bool is_rsa = type == "RSA";
  if (!is_rsa && type != "EC") {
    return std::unexpected("its type is '" + type + "'; accepted: RSA, EC");
  }
  const std::string algorithm(TextOf(jwk, "alg"));
  if (!algorithm.empty() && algorithm != (is_rsa ? "RS256" : "ES256")) {
    return std::unexpected("it is for " + algorithm + "; accepted: RS256, ES256");
  }
  auto key = is_rsa ? RsaKey(jwk) : EcKey(jwk);
  if (!key) return std::unexpected(key.error());
  return Jwk{std::string(TextOf(jwk, "kid")), is_rsa ? JwtAlgorithm::kRs256 : JwtAlgorithm::kEs256,
             std::move(*key)};
}

}  // namespace

std::expected<JwkSet, std::string> ParseJwks(std::string_view text) {
  if (text.size() > limits::kJwksBytesMax) return std::unexpected("the JWKS is over 256 KiB");
  const auto json = ParseJson(text);
  const Json* const keys = json ? json->Find("keys") : nullptr;
  if (keys == nullptr || keys->kind != Json::Kind::kArray) {
    return std::unexpected("is no JWKS: a JSON object with a list of 'keys'");
  }
  if (keys->items.size() > limits::kJwksKeysMax) {
    return std::unexpected("the JWKS has more than 64 keys");
  }
  JwkSet set;
  std::string left_out = "it has none";
  for (const Json& item : keys->items) {
    auto jwk = ReadJwk(item);
    if (jwk) {
      set.push_back(std::move(*jwk));
    } else if (&item == &keys->items.front()) {
      left_out = "the first one: " + jwk.error();
    }
  }
  if (set.empty()) return std::unexpected("no key can verify RS256 or ES256; " + left_out);
  return set;
}

}  // namespace recourse
