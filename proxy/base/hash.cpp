#include "proxy/base/hash.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>

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

struct ContextDeleter {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

// One per thread: to make one takes three allocations, and longer than hashing 200 bytes.
EVP_MD_CTX* Context() {
  thread_local const std::unique_ptr<EVP_MD_CTX, ContextDeleter> context(EVP_MD_CTX_new());
  RC_CHECK(context != nullptr);
  return context.get();
}

constexpr std::size_t kHmacBlock = 64;
using HmacPad = std::array<unsigned char, kHmacBlock>;

Digest HashBehind(const HmacPad& pad, const void* data, std::size_t size) {
  EVP_MD_CTX* const context = Context();
  Digest digest;
  unsigned int digest_size = 0;
  RC_CHECK(EVP_DigestInit_ex(context, Sha256Method(), nullptr) == 1 &&
           EVP_DigestUpdate(context, pad.data(), pad.size()) == 1 &&
           EVP_DigestUpdate(context, data, size) == 1 &&
           EVP_DigestFinal_ex(context, digest.data(), &digest_size) == 1);
  return digest;
}

}  // namespace

Digest Sha256(std::string_view data) {
  EVP_MD_CTX* const context = Context();
  Digest digest;
  unsigned int size = 0;
  RC_CHECK(EVP_DigestInit_ex(context, Sha256Method(), nullptr) == 1 &&
           EVP_DigestUpdate(context, data.data(), data.size()) == 1 &&
           EVP_DigestFinal_ex(context, digest.data(), &size) == 1);
  return digest;
}

Digest HmacSha256(std::string_view key, std::string_view data) {
  // By its definition (RFC 2104): OpenSSL's HMAC() fetches its parts anew in each call, which costs
  // more than hashing 1 KiB.
  HmacPad pad{};
  if (key.size() > pad.size()) {
    const Digest short_key = Sha256(key);
    std::memcpy(pad.data(), short_key.data(), short_key.size());
  } else {
    std::copy(key.begin(), key.end(), pad.begin());
  }
  for (unsigned char& byte : pad) byte ^= 0x36;
  Digest digest = HashBehind(pad, data.data(), data.size());
  for (unsigned char& byte : pad) byte ^= 0x36 ^ 0x5c;
  digest = HashBehind(pad, digest.data(), digest.size());
  OPENSSL_cleanse(pad.data(), pad.size());
  return digest;
}

std::string ToHex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex(bytes.size() * 2, '\0');
  char* next = hex.data();
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    *next++ = kDigits[byte >> 4];
    *next++ = kDigits[byte & 15];
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
  std::array<char, 8> size;
  for (std::size_t i = 0; i < size.size(); ++i) {
    size[i] = static_cast<char>(std::uint64_t{part.size()} >> (8 * i));
  }
  out.append(size.data(), size.size());
  out.append(part);
}

bool ConstantTimeEqual(std::string_view a, std::string_view b) {
  // Comparing digests hides the length too.
  const Digest left = Sha256(a);
  const Digest right = Sha256(b);
  return CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace recourse
