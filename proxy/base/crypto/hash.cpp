#include "proxy/base/crypto/hash.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "proxy/base/check.h"
#include "proxy/base/crypto/sha256.h"
#include "proxy/base/hex.h"

namespace recourse {
namespace {

constexpr std::size_t kHmacBlock = 64;
using HmacPad = std::array<unsigned char, kHmacBlock>;

std::string_view ViewOf(const HmacPad& pad) {
  return {reinterpret_cast<const char*>(pad.data()), pad.size()};
}

constexpr std::size_t kSizeBytes = 8;

// Little-endian hosts only (bytes.h).
std::array<char, kSizeBytes> SizeOfPart(std::string_view part) {
  return std::bit_cast<std::array<char, kSizeBytes>>(std::uint64_t{part.size()});
}

}  // namespace

// EVP takes a state from the heap for every digest, and gives it back: of the short texts that keys
// are made of that is half the time. The functions that it calls in the end are deprecated, not
// gone.
Sha256Sum::Sha256Sum() { RC_CHECK(SHA256_Init(&state_) == 1); }

Sha256Sum& Sha256Sum::Add(std::string_view data) {
  RC_CHECK(SHA256_Update(&state_, data.data(), data.size()) == 1);
  return *this;
}

Sha256Sum& Sha256Sum::AddPart(std::string_view part) {
  const auto size = SizeOfPart(part);
  std::array<char, 128> joined;
  std::memcpy(joined.data(), size.data(), size.size());
  if (part.size() > joined.size() - size.size()) {
    return Add({joined.data(), size.size()}).Add(part);
  }
  // Each call of OpenSSL costs more than the copy of a short part.
  return Add({joined.data(), size.size() + part.copy(joined.data() + size.size(), part.size())});
}

Digest Sha256Sum::End() {
  Digest digest;
  RC_CHECK(SHA256_Final(digest.data(), &state_) == 1);
  return digest;
}

// By its definition (RFC 2104): OpenSSL's HMAC() fetches its parts anew in each call, which costs
// more than hashing 1 KiB.
HmacKey::HmacKey(std::string_view key) {
  HmacPad pad{};
  if (key.size() > pad.size()) {
    const Digest short_key = Sha256(key);
    std::memcpy(pad.data(), short_key.data(), short_key.size());
  } else {
    std::copy(key.begin(), key.end(), pad.begin());
  }
  for (unsigned char& byte : pad) byte ^= 0x36;
  inner_.Add(ViewOf(pad));
  for (unsigned char& byte : pad) byte ^= 0x36 ^ 0x5c;
  outer_.Add(ViewOf(pad));
  OPENSSL_cleanse(pad.data(), pad.size());
}

HmacKey::~HmacKey() {
  OPENSSL_cleanse(&inner_, sizeof inner_);
  OPENSSL_cleanse(&outer_, sizeof outer_);
}

Digest HmacKey::EndOf(Sha256Sum& inner) const {
  const Digest digest = inner.End();
  Sha256Sum outer = outer_;
  return outer.Add(AsView(digest)).End();
}

Digest HmacKey::Of(std::string_view data) const {
  Sha256Sum inner = inner_;
  return EndOf(inner.Add(data));
}

Sha256Sum HmacKey::Begin(std::initializer_list<std::string_view> parts) const {
  Sha256Sum inner = inner_;
  for (const std::string_view part : parts) inner.AddPart(part);
  return inner;
}

Digest HmacKey::OfPartBehind(Sha256Sum begun, std::string_view part) const {
  return EndOf(begun.AddPart(part));
}

Digest HmacKey::OfParts(std::initializer_list<std::string_view> parts) const {
  Sha256Sum inner = Begin(parts);
  return EndOf(inner);
}

Digest Sha256(std::string_view data) { return Sha256Sum().Add(data).End(); }

Digest HmacSha256(std::string_view key, std::string_view data) { return HmacKey(key).Of(data); }

std::string ToHex(std::string_view bytes) {
  std::string hex(bytes.size() * 2, '\0');
  char* next = hex.data();
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    *next++ = kHexDigits[byte >> 4];
    *next++ = kHexDigits[byte & 15];
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
  const auto size = SizeOfPart(part);
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
