// The head of the ledger's hash chain, signed: kept elsewhere, it tells a ledger that was put back
// to an older copy, or cut, from one that only grew. Pure.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "proxy/base/crypto/ed25519.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

struct SignedHead {
  Digest ledger{};  // LedgerStats::identity
  std::uint64_t row = 0;
  Digest hash{};          // of that row
  std::string time;       // RFC 3339
  std::string signature;  // Ed25519 over TextOf, base64url
};

// What is signed: "recourse-head-1 LEDGER ROW HASH TIME", digests in hex.
std::string TextOf(const SignedHead& head);
// False when OpenSSL fails.
bool Sign(EVP_PKEY& key, SignedHead& head);
bool IsSignedBy(EVP_PKEY& key, const SignedHead& head);

// One JSON object, without an end of line, and back.
std::string ToJson(const SignedHead& head);
std::expected<SignedHead, std::string> ParseSignedHead(std::string_view line);

}  // namespace recourse
