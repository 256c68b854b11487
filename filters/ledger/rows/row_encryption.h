// Seals the parts of a row that came from requests and answers, and opens them again.
//
// Every sealer draws a random salt of 16 bytes and seals under HMAC-SHA-256(key, salt), so that its
// counter of nonces may start at zero: no state has to survive a crash, and a directory restored
// from a backup never repeats a nonce under one key.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filters/ledger/seal/key_ring.h"
#include "proxy/base/bytes.h"
#include "proxy/base/crypto/aead.h"

namespace recourse {

using Salt = std::array<unsigned char, 16>;

// Part of one row; bound into its seal, so that parts cannot change places.
enum class SealedPart : std::uint8_t { kDetails = 1, kAnswer = 2, kExtension = 3 };

inline constexpr std::size_t kRowHeadBytes = 72;

// What a part is bound to: the row's head (but for length, checksum and chain, which are not known
// yet or cover the seal themselves) and all of the payload before the first part.
struct SealContext {
  std::string_view head;
  std::string_view clear;
};
// `row` begins with its head; `clear_bytes` of its payload stand before the first part.
SealContext SealContextOf(std::string_view row, std::size_t clear_bytes);

// One thread at a time.
class RowEncryptor {
 public:
  explicit RowEncryptor(std::shared_ptr<const LedgerKeys> keys);

  // Appends the name of the key and the salt that Seal uses from now on; begins a row.
  void AppendKeyName(std::string& out);
  // Reserves the front of a part; what is appended afterwards is its text.
  static std::size_t OpenPart(std::string& out);
  // Seals, in place, the text since OpenPart gave `at`. The row starts at `row` in `out` and has
  // `clear_bytes` before its first part.
  void ClosePart(std::string& out, std::size_t at, std::size_t row, std::size_t clear_bytes,
                 SealedPart part);

 private:
  void Rekey();

  const std::shared_ptr<const LedgerKeys> keys_;
  std::uint64_t version_ = 0;
  KeyName name_;
  Salt salt_{};
  std::uint64_t next_nonce_ = 0;
  std::optional<Aes256Gcm> cipher_;
};

enum class Opening : std::uint8_t {
  kOpened,
  kNoKey,   // sealed with a key that is not at hand
  kBroken,  // changed, moved or cut
};

// One thread at a time. Keeps the last few salts set up.
class RowDecryptor {
 public:
  // `keys` may be null: then nothing sealed opens.
  explicit RowDecryptor(std::shared_ptr<const LedgerKeys> keys) : keys_(std::move(keys)) {}

  // Reads what AppendKeyName wrote. False: the bytes are too few.
  bool ReadKeyName(ByteReader& reader);
  const KeyName& key_name() const { return name_; }
  // Reads one part; its text is in text() until the next call.
  Opening ReadPart(ByteReader& reader, const SealContext& context, SealedPart part);
  std::string_view text() const { return text_; }

 private:
  struct Ready {
    std::uint64_t check = 0;
    Salt salt{};
    Aes256Gcm cipher;
  };
  Aes256Gcm* CipherOf();

  const std::shared_ptr<const LedgerKeys> keys_;
  KeyName name_;
  Salt salt_{};
  std::vector<Ready> ready_;
  std::size_t next_replaced_ = 0;
  std::string text_;
};

}  // namespace recourse
