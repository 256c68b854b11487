#include "proxy/base/crypto/aead.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>

namespace recourse::aead_test {
namespace {

using Bound = std::array<std::string_view, 2>;

SecretKey KeyOf(char fill) { return SecretKey(std::string(SecretKey::kBytes, fill)); }

struct Sealed {
  Aes256Gcm::Nonce nonce{1, 2, 3};
  std::string head = "head", clear = "clear";
  std::string text = "a secret of some length";
  Aes256Gcm::Tag tag{};
  SecretKey key = KeyOf('k');

  bool Opens() {
    Aes256Gcm cipher(key, Aes256Gcm::Use::kOpen);
    return cipher.Open(nonce, Bound{head, clear}, text, tag);
  }
};

Sealed Make() {
  Sealed sealed;
  Aes256Gcm cipher(sealed.key, Aes256Gcm::Use::kSeal);
  sealed.tag = cipher.Seal(sealed.nonce, Bound{sealed.head, sealed.clear}, sealed.text);
  return sealed;
}

void Flip(auto& bytes) { bytes[0] = static_cast<std::decay_t<decltype(bytes[0])>>(bytes[0] ^ 1); }

TEST(AeadTest, WhatWasSealedOpensAndIsNotReadableBefore) {
  Sealed sealed = Make();
  EXPECT_EQ(sealed.text.find("secret"), std::string::npos);
  EXPECT_TRUE(sealed.Opens());
  EXPECT_EQ(sealed.text, "a secret of some length");
}

TEST(AeadTest, NothingElseOpens) {
  const auto refused = [](auto change) {
    Sealed sealed = Make();
    change(sealed);
    return !sealed.Opens();
  };
  EXPECT_FALSE(refused([](Sealed&) {}));
  EXPECT_TRUE(refused([](Sealed& sealed) { sealed.key = KeyOf('l'); }));
  EXPECT_TRUE(refused([](Sealed& sealed) { Flip(sealed.nonce); }));
  EXPECT_TRUE(refused([](Sealed& sealed) { Flip(sealed.tag); }));
  EXPECT_TRUE(refused([](Sealed& sealed) { Flip(sealed.text); }));
  EXPECT_TRUE(refused([](Sealed& sealed) { Flip(sealed.head); }));
  EXPECT_TRUE(refused([](Sealed& sealed) { Flip(sealed.clear); }));
  EXPECT_TRUE(refused([](Sealed& sealed) { sealed.text.pop_back(); }));
  EXPECT_TRUE(refused([](Sealed& sealed) { sealed.text.push_back('x'); }));
}

// The example of NIST's GCM submission for AES-256 with additional data (test case 16).
TEST(AeadTest, ItIsTheCipherThatOthersUse) {
  const auto bytes = [](std::string_view hex) {
    std::string out;
    for (std::size_t i = 0; i < hex.size(); i += 2) {
      out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
    }
    return out;
  };
  const SecretKey key(bytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"));
  const std::string iv = bytes("cafebabefacedbaddecaf888");
  Aes256Gcm::Nonce nonce;
  std::copy(iv.begin(), iv.end(), nonce.begin());
  std::string text = bytes(
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6"
      "b5"
      "25b16aedf5aa0de657ba637b39");
  const std::string aad = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
  Aes256Gcm cipher(key, Aes256Gcm::Use::kSeal);
  const auto tag = cipher.Seal(nonce, Bound{aad, ""}, text);
  EXPECT_EQ(text.substr(0, 4), bytes("522dc1f0"));
  EXPECT_EQ(std::string(tag.begin(), tag.end()), bytes("76fc6ece0f4e1768cddf8853bb2d551b"));
}

TEST(AeadTest, HowWhatIsBoundIsCutChangesNothing) {
  const Aes256Gcm::Nonce nonce{7};
  const SecretKey key = KeyOf('k');
  for (const std::size_t size : {0U, 1U, 2U, 1023U, 1024U, 1025U, 4000U}) {
    const std::string all(size, 'b');
    std::optional<Aes256Gcm::Tag> known;
    for (const std::size_t cut : {std::size_t{0}, size / 2, size}) {
      const std::string head = all.substr(0, cut), tail = all.substr(cut);
      std::string text = "text";
      Aes256Gcm cipher(key, Aes256Gcm::Use::kSeal);
      const Aes256Gcm::Tag tag = cipher.Seal(nonce, Bound{head, tail}, text);
      EXPECT_EQ(known.value_or(tag), tag) << size << " cut at " << cut;
      known = tag;
      Aes256Gcm opener(key, Aes256Gcm::Use::kOpen);
      EXPECT_TRUE(opener.Open(nonce, Bound{tail, head}, text, tag)) << size << " cut at " << cut;
    }
  }
}

TEST(AeadTest, DerivedKeysDifferByLabelAndContext) {
  const SecretKey key = KeyOf('k');
  EXPECT_EQ(DeriveKey(key, "a", "1"), DeriveKey(key, "a", "1"));
  EXPECT_NE(DeriveKey(key, "a", "1"), DeriveKey(key, "a", "2"));
  EXPECT_NE(DeriveKey(key, "a", "1"), DeriveKey(key, "b", "1"));
  EXPECT_NE(DeriveKey(key, "a", "1"), DeriveKey(KeyOf('l'), "a", "1"));
}

TEST(AeadTest, WipedTextIsGone) {
  std::string text = "secret";
  Wipe(text);
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace recourse::aead_test
