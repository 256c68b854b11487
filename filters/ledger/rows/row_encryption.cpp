#include "filters/ledger/rows/row_encryption.h"

#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "proxy/base/check.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// Far below what GCM allows under one key; a new salt is one HMAC.
constexpr std::uint64_t kSealsPerSalt = std::uint64_t{1} << 32;
constexpr std::size_t kHeadBoundAt = 4;  // behind the magic
constexpr std::size_t kHeadBoundBytes = 28;
// A nonce, and the length of what follows it.
constexpr std::size_t kPartFrontBytes = Aes256Gcm::kNonceBytes + sizeof(std::uint32_t);

std::string_view BytesOf(const Salt& salt) {
  return {reinterpret_cast<const char*>(salt.data()), salt.size()};
}

SecretKey DeriveRowKey(const SecretKey& key, const Salt& salt) {
  return DeriveKey(key, "recourse-row-key-1", BytesOf(salt));
}

Aes256Gcm::Nonce NonceOf(std::uint64_t counter) {
  Aes256Gcm::Nonce nonce{};
  std::memcpy(nonce.data(), &counter, sizeof counter);
  return nonce;
}

std::string_view BytesOf(const SealedPart& part) {
  return {reinterpret_cast<const char*>(&part), sizeof part};
}

}  // namespace

SealContext SealContextOf(std::string_view row, std::size_t clear_bytes) {
  return {row.substr(kHeadBoundAt, kHeadBoundBytes), row.substr(kRowHeadBytes, clear_bytes)};
}

RowEncryptor::RowEncryptor(std::shared_ptr<const LedgerKeys> keys) : keys_(std::move(keys)) {}

void RowEncryptor::Rekey() {
  version_ = keys_->version();
  const auto ring = keys_->ring();
  name_ = ring->sealing().name;
  keys_->random().Fill(salt_);
  next_nonce_ = 0;
  cipher_.emplace(DeriveRowKey(ring->sealing().key, salt_), Aes256Gcm::Use::kSeal);
}

void RowEncryptor::AppendKeyName(std::string& out) {
  // A row has three parts at most.
  if (version_ != keys_->version() || next_nonce_ + 3 > kSealsPerSalt) Rekey();
  ByteWriter writer(out);
  writer.Text(name_.id);
  writer.Int(name_.check);
  writer.Raw(BytesOf(salt_));
}

std::size_t RowEncryptor::OpenPart(std::string& out) {
  const std::size_t at = out.size();
  out.append(kPartFrontBytes, '\0');
  return at;
}

void RowEncryptor::ClosePart(std::string& out, std::size_t at, std::size_t row,
                             std::size_t clear_bytes, SealedPart part) {
  const std::size_t text_at = at + kPartFrontBytes;
  const std::size_t text_bytes = out.size() - text_at;
  out.append(Aes256Gcm::kTagBytes, '\0');
  const Aes256Gcm::Nonce nonce = NonceOf(next_nonce_++);
  const SealContext context = SealContextOf(std::string_view(out).substr(row), clear_bytes);
  const std::array<std::string_view, 3> bound{context.head, context.clear, BytesOf(part)};
  const Aes256Gcm::Tag tag =
      cipher_->Seal(nonce, bound, std::span(out.data() + text_at, text_bytes));
  const auto sealed_bytes = static_cast<std::uint32_t>(text_bytes + tag.size());
  std::memcpy(out.data() + at, nonce.data(), nonce.size());
  std::memcpy(out.data() + at + nonce.size(), &sealed_bytes, sizeof sealed_bytes);
  std::memcpy(out.data() + text_at + text_bytes, tag.data(), tag.size());
}

bool RowDecryptor::ReadKeyName(ByteReader& reader) {
  name_.id = reader.Text();
  name_.check = reader.Int<std::uint64_t>();
  const std::string_view salt = reader.Raw(salt_.size());
  if (!reader.ok() || name_.id.size() > limits::kKeyIdBytesMax) return false;
  std::memcpy(salt_.data(), salt.data(), salt_.size());
  return true;
}

Opening RowDecryptor::ReadPart(ByteReader& reader, const SealContext& context, SealedPart part) {
  const std::string_view nonce_bytes = reader.Raw(Aes256Gcm::kNonceBytes);
  const std::string_view sealed = reader.Text();
  if (!reader.ok() || sealed.size() < Aes256Gcm::kTagBytes) return Opening::kBroken;
  Aes256Gcm* const cipher = CipherOf();
  if (cipher == nullptr) return Opening::kNoKey;
  Aes256Gcm::Nonce nonce;
  Aes256Gcm::Tag tag;
  std::memcpy(nonce.data(), nonce_bytes.data(), nonce.size());
  const std::size_t text_bytes = sealed.size() - tag.size();
  std::memcpy(tag.data(), sealed.data() + text_bytes, tag.size());
  text_ = sealed.substr(0, text_bytes);
  const std::array<std::string_view, 3> bound{context.head, context.clear, BytesOf(part)};
  if (cipher->Open(nonce, bound, text_, tag)) return Opening::kOpened;
  text_.clear();
  return Opening::kBroken;
}

Aes256Gcm* RowDecryptor::CipherOf() {
  for (Ready& ready : ready_) {
    if (ready.check == name_.check && ready.salt == salt_) return &ready.cipher;
  }
  if (keys_ == nullptr) return nullptr;
  const auto ring = keys_->ring();
  const SealKey* const key = ring->Find(name_.check);
  if (key == nullptr) return nullptr;
  Ready made{name_.check, salt_, Aes256Gcm(DeriveRowKey(key->key, salt_), Aes256Gcm::Use::kOpen)};
  if (ready_.size() < limits::kReadySaltsMax) return &ready_.emplace_back(std::move(made)).cipher;
  Ready& replaced = ready_[next_replaced_++ % ready_.size()];
  replaced = std::move(made);
  return &replaced.cipher;
}

}  // namespace recourse
