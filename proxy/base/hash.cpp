#include "proxy/base/hash.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>

#include "proxy/base/check.h"

namespace recourse {
namespace {

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Fetched once: an implicit fetch per call costs a third of the hash of 1 KiB.
const EVP_MD* Sha256Method() {
  static const EVP_MD* const method = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return method;
}

}  // namespace

Digest Sha256(std::string_view data) {
  Digest digest;
  unsigned int size = 0;
  RC_CHECK(EVP_Digest(data.data(), data.size(), digest.data(), &size, Sha256Method(), nullptr) ==
           1);
  return digest;
}

Digest HmacSha256(std::string_view key, std::string_view data) {
  Digest digest;
  unsigned int size = 0;
  RC_CHECK(HMAC(Sha256Method(), key.data(), static_cast<int>(key.size()),
                reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest.data(),
                &size) != nullptr);
  return digest;
}

std::string ToHex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

std::string ToBase64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL ends it with a zero
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::optional<Digest> DigestFromHex(std::string_view hex) {
  Digest digest;
  if (hex.size() != digest.size() * 2) return std::nullopt;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const int high = HexValue(hex[2 * i]);
    const int low = HexValue(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest[i] = static_cast<unsigned char>(high << 4 | low);
  }
  return digest;
}

void AppendPart(std::string& out, std::string_view part) {
  std::uint64_t size = part.size();
  for (int i = 0; i < 8; ++i, size >>= 8) out.push_back(static_cast<char>(size & 0xff));
  out.append(part);
}

bool ConstantTimeEqual(std::string_view a, std::string_view b) {
  // Comparing digests hides the length too.
  const Digest left = Sha256(a);
  const Digest right = Sha256(b);
  return CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace recourse
