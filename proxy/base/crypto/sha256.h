// SHA-256 and HMAC-SHA-256 of what comes in pieces. The same digests as those of hash.h.
#pragma once

#include <openssl/sha.h>

#include <initializer_list>
#include <string_view>

#include "proxy/base/crypto/hash.h"

namespace recourse {

// SHA-256 of everything that was added.
class Sha256Sum {
 public:
  Sha256Sum();
  Sha256Sum& Add(std::string_view data);
  // The bytes that AppendPart appends.
  Sha256Sum& AddPart(std::string_view part);
  // Nothing is added behind it.
  Digest End();

 private:
  SHA256_CTX state_;
};

// HMAC-SHA-256 under one key, whose own two blocks are hashed once.
class HmacKey {
 public:
  explicit HmacKey(std::string_view key);
  HmacKey(const HmacKey&) = delete;
  HmacKey& operator=(const HmacKey&) = delete;
  ~HmacKey();  // wipes what it made of the key

  Digest Of(std::string_view data) const;
  // Of the parts as AppendPart joins them.
  Digest OfParts(std::initializer_list<std::string_view> parts) const;
  // The parts that several texts begin with, hashed once; and of those and one more.
  Sha256Sum Begin(std::initializer_list<std::string_view> parts) const;
  Digest OfPartBehind(Sha256Sum begun, std::string_view part) const;

 private:
  Digest EndOf(Sha256Sum& inner) const;

  Sha256Sum inner_, outer_;  // behind the key's block
};

}  // namespace recourse
