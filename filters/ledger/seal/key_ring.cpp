#include "filters/ledger/seal/key_ring.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "proxy/base/check.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::string_view kLineHelp =
    "accepted: KEY_ID KEY, where KEY is 32 random bytes as 64 hexadecimal digits or in base64; "
    "`recourse ledger new-key` prints such a line";
constexpr std::size_t kBase64Chars = 44;

std::optional<SecretKey> FromBase64(std::string_view text) {
  // 32 bytes leave two characters of padding bits: "...X=".
  if (text.size() != kBase64Chars || !text.ends_with('=') || text[kBase64Chars - 2] == '=') {
    return std::nullopt;
  }
  std::array<unsigned char, 33> bytes{};
  const auto* in = reinterpret_cast<const unsigned char*>(text.data());
  const int size = EVP_DecodeBlock(bytes.data(), in, static_cast<int>(text.size()));
  std::string raw(reinterpret_cast<const char*>(bytes.data()), SecretKey::kBytes);
  std::optional<SecretKey> key;
  if (size == static_cast<int>(bytes.size())) key.emplace(raw);
  OPENSSL_cleanse(bytes.data(), bytes.size());
  Wipe(raw);
  return key;
}

std::optional<SecretKey> ParseKey(std::string_view text) {
  if (auto digest = DigestFromHex(text)) {
    SecretKey key(AsView(*digest));
    OPENSSL_cleanse(digest->data(), digest->size());
    return key;
  }
  return FromBase64(text);
}

bool IsRandom(const SecretKey& key) {
  const std::string_view bytes = key.view();
  return bytes.find_first_not_of(bytes.front()) != std::string_view::npos;
}

std::uint64_t CheckOf(const SecretKey& key) {
  const Digest digest = HmacSha256(key.view(), "recourse-key-check-1");
  std::uint64_t check = 0;
  std::memcpy(&check, digest.data(), sizeof check);
  return check;
}

std::expected<SealKey, std::string> ParseLine(std::string_view line) {
  const auto space = line.find_first_of(" \t");
  const std::string_view id = line.substr(0, space);
  if (!IsKeyId(id)) {
    return std::unexpected(fmt::format("a key id has 1 to {} letters, digits, '.', '_' or '-'; {}",
                                       limits::kKeyIdBytesMax, kLineHelp));
  }
  const auto first = space == std::string_view::npos ? space : line.find_first_not_of(" \t", space);
  if (first == std::string_view::npos) {
    return std::unexpected(fmt::format("key '{}' has no value; {}", id, kLineHelp));
  }
  auto key = ParseKey(line.substr(first));
  if (!key) {
    return std::unexpected(fmt::format("the value of key '{}' is not 32 bytes; {}", id, kLineHelp));
  }
  if (!IsRandom(*key)) {
    return std::unexpected(fmt::format("the value of key '{}' is not random; {}", id, kLineHelp));
  }
  SealKey parsed{{std::string(id), CheckOf(*key)}, *key};
  return parsed;
}

}  // namespace

bool IsKeyId(std::string_view id) {
  return !id.empty() && id.size() <= limits::kKeyIdBytesMax &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

std::string ToText(const KeyName& name) {
  return fmt::format("'{}' (check {:016x})", name.id, name.check);
}

std::expected<KeyRing, std::string> KeyRing::Parse(std::string_view text) {
  KeyRing ring;
  int number = 0;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++number;
    while (line.ends_with('\r') || line.ends_with(' ') || line.ends_with('\t')) {
      line.remove_suffix(1);
    }
    if (line.empty() || line.starts_with('#')) continue;
    auto key = ParseLine(line);
    if (!key) return std::unexpected(fmt::format("line {}: {}", number, key.error()));
    for (const SealKey& other : ring.keys_) {
      if (other.name.id == key->name.id || other.key == key->key) {
        return std::unexpected(
            fmt::format("line {}: key '{}' has the same {} as an earlier line; each key stands "
                        "there once, under a name of its own",
                        number, key->name.id, other.name.id == key->name.id ? "name" : "value"));
      }
    }
    if (ring.keys_.size() == limits::kLedgerKeysMax) {
      return std::unexpected(
          fmt::format("line {}: more than {} keys", number, limits::kLedgerKeysMax));
    }
    ring.keys_.push_back(std::move(*key));
  }
  if (ring.keys_.empty()) {
    return std::unexpected(fmt::format("there is no key; {}", kLineHelp));
  }
  return ring;
}

const SealKey* KeyRing::Find(std::uint64_t check) const {
  const auto found = std::find_if(keys_.begin(), keys_.end(),
                                  [check](const SealKey& key) { return key.name.check == check; });
  return found == keys_.end() ? nullptr : &*found;
}

std::string NewKeyLine(std::string_view id, Random& random) {
  std::array<unsigned char, SecretKey::kBytes> bytes{};
  random.Fill(bytes);
  std::string line(id);
  line += ' ';
  line += ToHex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  line += '\n';
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return line;
}

LedgerKeys::LedgerKeys(KeyRing ring, Random& random)
    : random_(random), ring_(std::make_shared<const KeyRing>(std::move(ring))) {}

std::shared_ptr<const KeyRing> LedgerKeys::ring() const {
  const std::lock_guard lock(mutex_);
  return ring_;
}

std::expected<void, std::string> LedgerKeys::Replace(KeyRing ring) {
  const std::lock_guard lock(mutex_);
  const KeyName& sealing = ring_->sealing().name;
  if (ring.Find(sealing.check) == nullptr) {
    return std::unexpected(
        fmt::format("it lacks key {}, which the newest rows are sealed with; keep its line below "
                    "the new first one",
                    ToText(sealing)));
  }
  ring_ = std::make_shared<const KeyRing>(std::move(ring));
  version_.fetch_add(1, std::memory_order_release);
  return {};
}

}  // namespace recourse
