#include "proxy/base/crypto/hash.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "proxy/base/check.h"
#include "proxy/base/crypto/sha256.h"
#include "proxy/base/hex.h"
#include "proxy/base/latest_texts.h"

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

// As many bytes as a ShortText has at most.
constexpr std::size_t kUsualBytesMax = 255;
constexpr std::size_t kUsualPlaces = 32;

std::uint64_t NewKeyId() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

// EVP takes a state from the heap for every digest, and gives it back: of the short texts that keys
// are made of that is half the time. The functions that it calls in the end are deprecated, not
// gone. They take what is short block by block; so it is held, and hashed with its end at once.
Sha256Sum::Sha256Sum() { RC_CHECK(SHA256_Init(&state_) == 1); }

Sha256Sum& Sha256Sum::operator=(const Sha256Sum& other) {
  state_ = other.state_;
  held_size_ = other.held_size_;
  std::memmove(held_.data(), other.held_.data(), held_size_);
  return *this;
}

void Sha256Sum::Hash(std::string_view blocks) {
  RC_CHECK(SHA256_Update(&state_, blocks.data(), blocks.size()) == 1);
}

void Sha256Sum::HashHeldBlocks() {
  const std::size_t size = held_size_ / kBlockBytes * kBlockBytes;
  Hash({held_.data(), size});
  Drop(size);
}

void Sha256Sum::Drop(std::size_t size) {
  held_size_ -= size;
  std::memmove(held_.data(), held_.data() + size, held_size_);
}

Sha256Sum& Sha256Sum::Add(std::string_view data) {
  if (data.size() > kHeldBytesMax - held_size_) {
    if (held_size_ > 0) {
      const std::size_t missing = (kPairBytes - held_size_ % kPairBytes) % kPairBytes;
      data.copy(held_.data() + held_size_, missing);
      data.remove_prefix(missing);
      Hash({held_.data(), held_size_ + missing});
      held_size_ = 0;
    }
    const std::size_t pairs = data.size() / kPairBytes * kPairBytes;
    Hash(data.substr(0, pairs));
    data.remove_prefix(pairs);
  }
  held_size_ += data.copy(held_.data() + held_size_, data.size());
  return *this;
}

Sha256Sum& Sha256Sum::AddPart(std::string_view part) {
  const auto size = SizeOfPart(part);
  return Add({size.data(), size.size()}).Add(part);
}

// The end of FIPS 180-4, 5.1.1: a bit, zeros, and the length in bits.
Digest Sha256Sum::End() {
  const std::uint64_t hashed = std::uint64_t{state_.Nh} << 32 | state_.Nl;
  const std::uint64_t bits = std::byteswap(hashed + held_size_ * 8);
  const std::size_t size =
      (held_size_ + 1 + sizeof bits + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  char* const end = held_.data() + held_size_;
  std::memset(end, 0, size - held_size_);
  *end = static_cast<char>(0x80);
  std::memcpy(held_.data() + size - sizeof bits, &bits, sizeof bits);
  Hash({held_.data(), size});
  OPENSSL_cleanse(held_.data(), size);
  Digest digest;
  for (std::size_t i = 0; i < digest.size() / sizeof(SHA_LONG); ++i) {
    const SHA_LONG word = std::byteswap(state_.h[i]);
    std::memcpy(digest.data() + i * sizeof word, &word, sizeof word);
  }
  return digest;
}

// By its definition (RFC 2104): OpenSSL's HMAC() fetches its parts anew in each call, which costs
// more than hashing 1 KiB.
HmacKey::HmacKey(std::string_view key) : id_(NewKeyId()) {
  HmacPad pad{};
  if (key.size() > pad.size()) {
    const Digest short_key = Sha256(key);
    std::memcpy(pad.data(), short_key.data(), short_key.size());
  } else {
    std::copy(key.begin(), key.end(), pad.begin());
  }
  for (unsigned char& byte : pad) byte ^= 0x36;
  inner_.Hash(ViewOf(pad));
  for (unsigned char& byte : pad) byte ^= 0x36 ^ 0x5c;
  outer_.Hash(ViewOf(pad));
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

// Texts under one key begin alike, with a version, a caller and a tool.
void HmacKey::HashFirstBlock(Sha256Sum& inner) const {
  constexpr std::size_t kBytes = sizeof id_ + Sha256Sum::kBlockBytes;
  std::array<char, kBytes> text;
  std::memcpy(text.data(), &id_, sizeof id_);
  std::memcpy(text.data() + sizeof id_, inner.held_.data(), Sha256Sum::kBlockBytes);
  static constexpr auto kMake = [](std::string_view of, const HmacKey& key) {
    Sha256Sum hashed = key.inner_;
    hashed.Hash(of.substr(sizeof key.id_));
    return hashed.state_;
  };
  inner.state_ = LatestOf<kMake, kBytes, kUsualPlaces>({text.data(), kBytes}, *this);
  inner.Drop(Sha256Sum::kBlockBytes);
}

Sha256Sum HmacKey::Joined(std::initializer_list<std::string_view> parts) const {
  Sha256Sum inner = inner_;
  bool has_begun = false;
  for (std::string_view part : parts) {
    const auto size = SizeOfPart(part);
    inner.Add({size.data(), size.size()});
    if (!has_begun) {
      const std::size_t missing =
          Sha256Sum::kBlockBytes - std::min(inner.held_size_, Sha256Sum::kBlockBytes);
      const std::string_view head = part.substr(0, missing);
      inner.Add(head);
      part.remove_prefix(head.size());
      has_begun = inner.held_size_ >= Sha256Sum::kBlockBytes;
      if (has_begun) HashFirstBlock(inner);
    }
    inner.Add(part);
  }
  return inner;
}

Sha256Sum HmacKey::Begin(std::initializer_list<std::string_view> parts) const {
  Sha256Sum inner = Joined(parts);
  inner.HashHeldBlocks();
  return inner;
}

Digest HmacKey::OfPartBehind(Sha256Sum begun, std::string_view part) const {
  return EndOf(begun.AddPart(part));
}

Digest HmacKey::OfParts(std::initializer_list<std::string_view> parts) const {
  Sha256Sum inner = Joined(parts);
  return EndOf(inner);
}

Digest HmacKey::OfUsualParts(std::initializer_list<std::string_view> parts) const {
  std::array<char, kUsualBytesMax> text;
  std::memcpy(text.data(), &id_, sizeof id_);
  std::size_t size = sizeof id_;
  for (const std::string_view part : parts) {
    const auto length = SizeOfPart(part);
    if (length.size() + part.size() > text.size() - size) return OfParts(parts);
    std::memcpy(text.data() + size, length.data(), length.size());
    size += length.size();
    size += part.copy(text.data() + size, part.size());
  }
  static constexpr auto kMake = [](std::string_view of, const HmacKey& key) {
    return key.Of(of.substr(sizeof key.id_));
  };
  return LatestOf<kMake, kUsualBytesMax, kUsualPlaces>({text.data(), size}, *this);
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
