// The keys that stored requests and answers are sealed with: one file of them, newest first.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <expected>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/crypto/aead.h"
#include "proxy/base/random.h"

namespace recourse {

// What a row says about its key: the name is for people, the check finds the key. A key keeps its
// check when its line gets another name; two keys of one name are never mistaken for each other.
struct KeyName {
  std::string id;
  std::uint64_t check = 0;  // the first 8 bytes of an HMAC under the key
};
std::string ToText(const KeyName& name);  // "'k1' (check 00112233aabbccdd)"

// 1 to kKeyIdBytesMax letters, digits, '.', '_' or '-'.
bool IsKeyId(std::string_view id);

struct SealKey {
  KeyName name;
  SecretKey key;
};

// Immutable.
class KeyRing {
 public:
  // Lines `KEY_ID KEY`, KEY being 32 bytes in hex or base64; the first seals, all open. Empty lines
  // and lines that begin with '#' are skipped. Fails with "line 3: what is wrong, what is
  // accepted"; never shows key material.
  static std::expected<KeyRing, std::string> Parse(std::string_view text);

  const SealKey& sealing() const { return keys_.front(); }
  const SealKey* Find(std::uint64_t check) const;
  std::size_t size() const { return keys_.size(); }

 private:
  std::vector<SealKey> keys_;  // never empty
};

// "ID HEX\n", a line for a key file with a fresh key; `id` is a key id.
std::string NewKeyLine(std::string_view id, Random& random);

// The ring in use. Thread-safe.
class LedgerKeys {
 public:
  // `random` outlives the keys.
  LedgerKeys(KeyRing ring, Random& random);

  std::shared_ptr<const KeyRing> ring() const;
  // Changes whenever ring() does.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // Takes the new ring, or refuses it with a line for people: operations that are open now must
  // still be readable, so the key that seals now has to be in it.
  std::expected<void, std::string> Replace(KeyRing ring);
  Random& random() const { return random_; }

 private:
  Random& random_;
  mutable std::mutex mutex_;
  std::shared_ptr<const KeyRing> ring_;  // guarded by mutex_
  std::atomic<std::uint64_t> version_{1};
};

}  // namespace recourse
