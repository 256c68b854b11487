#include <gtest/gtest.h>

#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "proxy/base/crypto/sha256.h"

namespace recourse::hash_test {
namespace {

using namespace std::string_literals;

TEST(HashTest, Sha256HoldsTheVectorsOfFips180) {
  EXPECT_EQ(ToHex(Sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(ToHex(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(ToHex(Sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(HashTest, HmacHoldsTheVectorsOfRfc4231) {
  EXPECT_EQ(ToHex(HmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(ToHex(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(ToHex(HmacSha256(std::string(131, '\xaa'),
                             "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HashTest, PiecesAndPartsGiveTheDigestOfTheirJoinedBytes) {
  for (const std::size_t size : {0U, 1U, 55U, 56U, 63U, 64U, 65U, 128U, 1'000U}) {
    const std::string text(size, 'p');
    EXPECT_EQ(Sha256Sum().Add("ab").Add(text).Add("").Add("c").End(), Sha256("ab" + text + "c"));
    std::string joined("ab");
    AppendPart(joined, text);
    AppendPart(joined, "");
    EXPECT_EQ(Sha256Sum().Add("ab").AddPart(text).AddPart("").End(), Sha256(joined));
    const HmacKey key(text);
    EXPECT_EQ(key.Of(joined), HmacSha256(text, joined));
    EXPECT_EQ(key.Of(joined), key.Of(joined)) << "it is not used up";
    joined.clear();
    AppendPart(joined, "x");
    AppendPart(joined, text);
    EXPECT_EQ(key.OfParts({"x", text}), HmacSha256(text, joined));
    EXPECT_EQ(key.OfParts({}), HmacSha256(text, ""));
    EXPECT_EQ(key.OfPartBehind(key.Begin({"x"}), text), HmacSha256(text, joined));
    joined.clear();
    AppendPart(joined, text);
    AppendPart(joined, "x");
    EXPECT_EQ(key.OfPartBehind(key.Begin({text}), "x"), HmacSha256(text, joined));
  }
}

TEST(HashTest, TextsOfEveryLengthInPiecesOfEveryLengthGiveTheDigestsOfOpenssl) {
  std::string text;
  for (std::size_t size = 0; size <= 1'100; ++size) {
    Digest digest;
    ASSERT_EQ(EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr),
              1);
    ASSERT_EQ(Sha256(text), digest) << size;
    Sha256Sum pieces;
    std::size_t at = 0;
    for (std::size_t piece = size % 7 * 61; at < size; at += piece, piece = piece * 5 % 449 + 1) {
      pieces.Add(std::string_view(text).substr(at, piece));
    }
    Sha256Sum copy = pieces;
    ASSERT_EQ(pieces.End(), digest) << size;
    ASSERT_EQ(copy.End(), digest) << size;
    text.push_back(static_cast<char>(size * 31 % 251));
  }
}

TEST(HashTest, UsualPartsGiveTheDigestOfPartsUnderEachKey) {
  const HmacKey one("one"), other("other");
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t size : {0U, 1U, 200U, 229U, 230U, 231U, 255U, 300U}) {
      for (const char c : {'x', 'y'}) {
        const std::string text(size, c);
        EXPECT_EQ(one.OfUsualParts({"part", text}), one.OfParts({"part", text})) << size;
        EXPECT_EQ(other.OfUsualParts({"part", text}), other.OfParts({"part", text})) << size;
        EXPECT_EQ(one.OfUsualParts({text, "part"}), one.OfParts({text, "part"})) << size;
      }
    }
  }
}

TEST(HashTest, PartsThatBeginAlikeGiveTheDigestOfTheirOwnBytes) {
  const HmacKey one("one"), other("other");
  for (int round = 0; round < 2; ++round) {
    for (std::size_t size = 0; size < 600; size += size < 80 ? 1 : 64) {
      const std::string text(size, 'p');
      for (const std::string& last : {"x"s, "y"s, std::string(100, 'x'), std::string(700, 'y')}) {
        std::string joined;
        AppendPart(joined, text);
        AppendPart(joined, last);
        ASSERT_EQ(one.OfParts({text, last}), one.Of(joined)) << size;
        ASSERT_EQ(other.OfParts({text, last}), other.Of(joined)) << size;
        ASSERT_EQ(one.OfPartBehind(one.Begin({text}), last), one.Of(joined)) << size;
      }
    }
  }
}

TEST(HashTest, HexIsReadInEitherCaseAndOnlyWhole) {
  const Digest digest = Sha256("x");
  const std::string hex = ToHex(digest);
  EXPECT_EQ(DigestFromHex(hex), digest);
  std::string upper = hex;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  EXPECT_EQ(DigestFromHex(upper), digest);
  for (const std::string& bad : {""s, hex.substr(1), hex + "0", "g" + hex.substr(1),
                                 " " + hex.substr(1), hex.substr(0, 63) + "\0"s}) {
    EXPECT_EQ(DigestFromHex(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(ToHex("\0\x7f\xff"s), "007fff");
}

TEST(HashTest, NoTwoListsOfPartsGiveTheSameBytes) {
  const std::vector<std::vector<std::string>> lists = {
      {},         {""},   {"", ""},   {"a"},      {"a", ""}, {"", "a"},
      {"a", "b"}, {"ab"}, {"ab", ""}, {"b", "a"}, {"\1"},    {"\0\0\0\0\0\0\0\0"s}};
  std::set<std::string> seen;
  for (const auto& list : lists) {
    std::string joined;
    for (const std::string& part : list) AppendPart(joined, part);
    EXPECT_TRUE(seen.insert(joined).second);
  }
  std::string one;
  AppendPart(one, "ab");
  EXPECT_EQ(one, "\2\0\0\0\0\0\0\0ab"s);
}

TEST(HashTest, SecretsAreEqualOnlyWhenTheyAre) {
  EXPECT_TRUE(ConstantTimeEqual("secret", "secret"));
  EXPECT_TRUE(ConstantTimeEqual("", ""));
  for (const char* other : {"", "secreT", "secre", "secrets"}) {
    EXPECT_FALSE(ConstantTimeEqual("secret", other)) << other;
  }
}

TEST(HashTest, DigestsAreKeysOfUnorderedContainers) {
  const std::unordered_set<Digest, DigestHash> set = {Sha256("a"), Sha256("b"), Sha256("a")};
  EXPECT_EQ(set.size(), 2U);
}

}  // namespace
}  // namespace recourse::hash_test
