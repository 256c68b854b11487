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
