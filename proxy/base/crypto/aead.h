// AES-256-GCM, and 32-byte keys that are wiped when they go, over OpenSSL.
#pragma once

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace recourse {

// Key material. Every copy wipes itself.
class SecretKey {
 public:
  static constexpr std::size_t kBytes = 32;

  SecretKey() = default;
  explicit SecretKey(std::string_view bytes);  // exactly kBytes
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey();
  std::string_view view() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  // Constant time.
  bool operator==(const SecretKey& other) const;

 private:
  std::array<unsigned char, kBytes> bytes_{};
};

// HMAC-SHA-256(key, label ‖ context) as a key of its own.
SecretKey DeriveKey(const SecretKey& key, std::string_view label, std::string_view context);

// Overwrites text that held a secret.
void Wipe(std::string& text);

// One key, set up once for many messages. One thread at a time.
class Aes256Gcm {
 public:
  static constexpr std::size_t kNonceBytes = 12;
  static constexpr std::size_t kTagBytes = 16;
  using Nonce = std::array<unsigned char, kNonceBytes>;
  using Tag = std::array<unsigned char, kTagBytes>;
  enum class Use : std::uint8_t { kSeal, kOpen };

  Aes256Gcm(const SecretKey& key, Use use);

  // Encrypts `text` in place; `bound` is authenticated with it. A nonce serves once per key.
  Tag Seal(const Nonce& nonce, std::span<const std::string_view> bound, std::span<char> text);
  // Decrypts `text` in place. False when text, tag, nonce, key or `bound` are not those of Seal;
  // `text` is worthless then.
  bool Open(const Nonce& nonce, std::span<const std::string_view> bound, std::span<char> text,
            const Tag& tag);

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };
  std::unique_ptr<EVP_CIPHER_CTX, Free> context_;
};

}  // namespace recourse
