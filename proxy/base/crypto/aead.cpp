#include "proxy/base/crypto/aead.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "proxy/base/check.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {
namespace {

const EVP_CIPHER* Method() {
  static const EVP_CIPHER* const method = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  return method;
}

int SizeOf(std::size_t size) {
  RC_CHECK(size <= static_cast<std::size_t>(std::numeric_limits<int>::max()));
  return static_cast<int>(size);
}

bool Bind(EVP_CIPHER_CTX* context, std::string_view part) {
  int size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(part.data());
  return EVP_CipherUpdate(context, nullptr, &size, bytes, SizeOf(part.size())) == 1;
}

// In one piece where that is small: each call of OpenSSL costs more than to copy 1 KiB.
bool BindAll(EVP_CIPHER_CTX* context, std::span<const std::string_view> bound) {
  std::array<char, 1024> joined;
  std::size_t size = 0;
  for (const std::string_view part : bound) {
    if (part.size() > joined.size() - size) {
      return std::ranges::all_of(bound, [&](std::string_view one) { return Bind(context, one); });
    }
    size += part.copy(joined.data() + size, part.size());
  }
  return Bind(context, {joined.data(), size});
}

// Encrypts or decrypts; an empty text is allowed.
bool Update(EVP_CIPHER_CTX* context, std::span<const std::string_view> bound,
            std::span<char> text) {
  if (!BindAll(context, bound)) return false;
  if (text.empty()) return true;
  int size = 0;
  auto* const bytes = reinterpret_cast<unsigned char*>(text.data());
  return EVP_CipherUpdate(context, bytes, &size, bytes, SizeOf(text.size())) == 1;
}

}  // namespace

SecretKey::SecretKey(std::string_view bytes) {
  RC_CHECK(bytes.size() == kBytes);
  std::memcpy(bytes_.data(), bytes.data(), kBytes);
}

SecretKey::~SecretKey() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

bool SecretKey::operator==(const SecretKey& other) const {
  return CRYPTO_memcmp(bytes_.data(), other.bytes_.data(), kBytes) == 0;
}

SecretKey DeriveKey(const SecretKey& key, std::string_view label, std::string_view context) {
  Digest digest = HmacSha256(key.view(), std::string(label).append(context));
  SecretKey derived(AsView(digest));
  OPENSSL_cleanse(digest.data(), digest.size());
  return derived;
}

void Wipe(std::string& text) {
  OPENSSL_cleanse(text.data(), text.size());
  text.clear();
}

Aes256Gcm::Aes256Gcm(const SecretKey& key, Use use) : context_(EVP_CIPHER_CTX_new()) {
  RC_CHECK(context_ != nullptr);
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.view().data());
  RC_CHECK(EVP_CipherInit_ex2(context_.get(), Method(), bytes, nullptr, use == Use::kSeal ? 1 : 0,
                              nullptr) == 1);
}

Aes256Gcm::Tag Aes256Gcm::Seal(const Nonce& nonce, std::span<const std::string_view> bound,
                               std::span<char> text) {
  Tag tag;
  int size = 0;
  EVP_CIPHER_CTX* const context = context_.get();
  RC_CHECK(EVP_CipherInit_ex2(context, nullptr, nullptr, nonce.data(), -1, nullptr) == 1 &&
           Update(context, bound, text) && EVP_CipherFinal_ex(context, tag.data(), &size) == 1 &&
           EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag.data()) == 1);
  return tag;
}

bool Aes256Gcm::Open(const Nonce& nonce, std::span<const std::string_view> bound,
                     std::span<char> text, const Tag& tag) {
  Tag expected = tag;
  int size = 0;
  EVP_CIPHER_CTX* const context = context_.get();
  return EVP_CipherInit_ex2(context, nullptr, nullptr, nonce.data(), -1, nullptr) == 1 &&
         EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, kTagBytes, expected.data()) == 1 &&
         Update(context, bound, text) && EVP_CipherFinal_ex(context, expected.data(), &size) == 1;
}

}  // namespace recourse
