#include "filters/ledger/seal/key_ring.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/seeded_random.h"

namespace recourse::key_ring_test {
namespace {

constexpr std::string_view kHex =
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
constexpr std::string_view kBase64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
constexpr std::string_view kOther =
    "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

std::string Line(std::string_view id, std::string_view key) {
  return std::string(id) + " " + std::string(key) + "\n";
}

std::string ErrorOf(const std::string& text) {
  const auto ring = KeyRing::Parse(text);
  return ring ? "" : ring.error();
}

TEST(KeyRingTest, TheFirstLineSealsAndAllOpen) {
  const auto ring = KeyRing::Parse("# rotated in May\n\n" + Line("k2", kHex) + Line("k1", kOther));
  ASSERT_TRUE(ring) << ring.error();
  EXPECT_EQ(ring->sealing().name.id, "k2");
  EXPECT_EQ(ring->size(), 2U);
  const auto old = KeyRing::Parse(Line("old", kOther));
  const SealKey* const found = ring->Find(old->sealing().name.check);
  ASSERT_NE(found, nullptr);  // a key is found whatever its line calls it
  EXPECT_EQ(found->name.id, "k1");
  EXPECT_EQ(ring->Find(1), nullptr);
}

TEST(KeyRingTest, HexAndBase64SayTheSame) {
  const auto hex = KeyRing::Parse(Line("k", kHex));
  const auto base64 = KeyRing::Parse("k\t" + std::string(kBase64) + "  \r\n");
  ASSERT_TRUE(hex && base64);
  EXPECT_EQ(hex->sealing().key, base64->sealing().key);
}

TEST(KeyRingTest, EveryMistakeIsNamedWithItsLineAndNoKey) {
  const std::string good = Line("k1", kHex);
  const struct {
    std::string text;
    std::string_view line, says;
  } cases[] = {
      {"", "", "there is no key"},
      {"# nothing\n", "", "there is no key"},
      {good + "k2\n", "line 2: ", "key 'k2' has no value"},
      {good + Line("k2", kHex.substr(2)), "line 2: ", "is not 32 bytes"},
      {good + Line("k2", "zz" + std::string(kHex.substr(2))), "line 2: ", "is not 32 bytes"},
      {good + Line("k2", kBase64.substr(4)), "line 2: ", "is not 32 bytes"},
      {good + Line("k2", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg=="),
       "line 2: ", "is not 32 bytes"},
      {good + Line("k2", "AAEC?wQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
       "line 2: ", "is not 32 bytes"},
      {good + Line("k2", std::string(kHex) + " x"), "line 2: ", "is not 32 bytes"},
      {good + Line("k2", std::string(64, '0')), "line 2: ", "is not random"},
      {good + Line("k/2", kOther), "line 2: ", "a key id has"},
      {good + Line(std::string(33, 'k'), kOther), "line 2: ", "a key id has"},
      {good + Line("k1", kOther), "line 2: ", "same name as an earlier line"},
      {good + Line("k2", kHex), "line 2: ", "same value as an earlier line"},
  };
  EXPECT_EQ(ErrorOf(good), "");
  for (const auto& entry : cases) {
    const std::string error = ErrorOf(entry.text);
    EXPECT_TRUE(error.starts_with(entry.line)) << entry.text << ": " << error;
    EXPECT_NE(error.find(entry.says), std::string::npos) << entry.text << ": " << error;
    EXPECT_EQ(error.find(kHex.substr(2, 40)), std::string::npos) << error;
  }
}

TEST(KeyRingTest, ANewLineIsAKeyFileOfItsOwn) {
  SeededRandom random(7);
  const std::string first = NewKeyLine("k1", random);
  const std::string second = NewKeyLine("k2", random);
  const auto ring = KeyRing::Parse(second + first);
  ASSERT_TRUE(ring) << ring.error();
  EXPECT_EQ(ring->size(), 2U);
}

TEST(KeyRingTest, ARingWithoutTheSealingKeyIsRefusedWhileItIsInUse) {
  SeededRandom random(7);
  LedgerKeys keys(*KeyRing::Parse(Line("k1", kHex)), random);
  const auto before = keys.version();
  const auto refused = keys.Replace(*KeyRing::Parse(Line("k1", kOther)));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("it lacks key 'k1'"), std::string::npos) << refused.error();
  EXPECT_EQ(keys.version(), before);
  ASSERT_TRUE(keys.Replace(*KeyRing::Parse(Line("k2", kOther) + Line("renamed", kHex))));
  EXPECT_NE(keys.version(), before);
  EXPECT_EQ(keys.ring()->sealing().name.id, "k2");
}

}  // namespace
}  // namespace recourse::key_ring_test
