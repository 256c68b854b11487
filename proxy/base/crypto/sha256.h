// SHA-256 and HMAC-SHA-256 of what comes in pieces. The same digests as those of hash.h.
#pragma once

#include <openssl/sha.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "proxy/base/crypto/hash.h"

namespace recourse {

// SHA-256 of everything that was added.
class Sha256Sum {
 public:
  Sha256Sum();
  Sha256Sum(const Sha256Sum& other) { *this = other; }
  Sha256Sum& operator=(const Sha256Sum& other);
  Sha256Sum& Add(std::string_view data);
  // The bytes that AppendPart appends.
  Sha256Sum& AddPart(std::string_view part);
  // Nothing is added behind it.
  Digest End();

 private:
  friend class HmacKey;
  static constexpr std::size_t kBlockBytes = 64;
  // Where the processor has no instructions for it, OpenSSL takes two blocks in less time than one
  // after the other.
  static constexpr std::size_t kPairBytes = 2 * kBlockBytes;
  static constexpr std::size_t kHeldBytesMax = 3 * kPairBytes;

  void Hash(std::string_view blocks);
  void HashHeldBlocks();
  void Drop(std::size_t size);  // of what is held

  SHA256_CTX state_;           // of what is hashed: whole blocks
  std::size_t held_size_ = 0;  // of what was added behind those
  std::array<char, kHeldBytesMax + kBlockBytes> held_;
};

// HMAC-SHA-256 under one key, whose own two blocks are hashed once.
class HmacKey {
 public:
  explicit HmacKey(std::string_view key);
  HmacKey(const HmacKey&) = delete;
  HmacKey& operator=(const HmacKey&) = delete;
  ~HmacKey();  // wipes what it made of the key alone

  Digest Of(std::string_view data) const;
  // Of the parts as AppendPart joins them.
  Digest OfParts(std::initializer_list<std::string_view> parts) const;
  // The same, of short texts of which most come again and again: of the latest it is known.
  Digest OfUsualParts(std::initializer_list<std::string_view> parts) const;
  // The parts that several texts begin with, hashed once; and of those and one more.
  Sha256Sum Begin(std::initializer_list<std::string_view> parts) const;
  Digest OfPartBehind(Sha256Sum begun, std::string_view part) const;

 private:
  Sha256Sum Joined(std::initializer_list<std::string_view> parts) const;
  // Of what `inner` holds, behind the key's own.
  void HashFirstBlock(Sha256Sum& inner) const;
  Digest EndOf(Sha256Sum& inner) const;

  const std::uint64_t id_;   // which no other key has
  Sha256Sum inner_, outer_;  // behind the key's block
};

}  // namespace recourse
