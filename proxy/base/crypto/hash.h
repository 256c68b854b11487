// SHA-256, HMAC-SHA-256, hex and base64, over OpenSSL.
#pragma once

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace recourse {

using Digest = std::array<unsigned char, 32>;

Digest Sha256(std::string_view data);
Digest HmacSha256(std::string_view key, std::string_view data);

std::string ToHex(std::string_view bytes);
inline std::string ToHex(const Digest& digest) {
  return ToHex(std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}
std::string ToBase64(std::string_view bytes);
// nullopt unless `hex` is exactly 64 hexadecimal digits.
std::optional<Digest> DigestFromHex(std::string_view hex);

inline std::string_view AsView(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// For unordered containers keyed by a digest: its first bytes are already uniform.
struct DigestHash {
  std::size_t operator()(const Digest& digest) const noexcept {
    std::size_t value;
    __builtin_memcpy(&value, digest.data(), sizeof value);
    return value;
  }
};

// Joins parts so that no two part lists give the same bytes: each part is preceded by its length
// as eight little-endian bytes.
void AppendPart(std::string& out, std::string_view part);

// Compares secrets in time that does not depend on where they differ.
bool ConstantTimeEqual(std::string_view a, std::string_view b);

}  // namespace recourse
