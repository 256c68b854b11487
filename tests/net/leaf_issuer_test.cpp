#include "proxy/net/tls/leaf_issuer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/x509v3.h>

#include "proxy/base/ca_limits.h"

namespace recourse::leaf_minter_test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

class SetClock final : public Clock {
 public:
  MonoTime Now() const override { return {}; }
  WallTime WallNow() const override { return now; }
  WallTime now = WallTime(hours(490'000));
};

class LeafMinterTest : public testing::Test {
 protected:
  LeafMinterTest() { minter_.Use(ca_ = NewCa(limits::kCaLife)); }

  std::shared_ptr<const PodCa> NewCa(Millis life) {
    const std::string key = PodCa::NewKey();
    const auto pem = PodCa::NewCertificatePem(
        key, {.name = "pod", .hosts = {}, .now = clock_.now, .life = life}, random_);
    return *PodCa::Read(*pem, key);
  }
  const TlsServer* For(const std::string& host) {
    const auto server = minter_.For(host);
    EXPECT_TRUE(server.has_value()) << server.error();
    held_.push_back(server.value_or(nullptr));  // so that no address is used again
    return held_.back().get();
  }
  X509Ptr Mint(const std::string& host) {
    const KeyPtr key = NewP256Key();
    return MintLeaf(*ca_, *key, host, clock_.now, random_);
  }

  SetClock clock_;
  SystemRandom random_;
  LeafIssuer minter_{clock_, random_};
  std::shared_ptr<const PodCa> ca_;
  std::vector<std::shared_ptr<const TlsServer>> held_;
};

TEST_F(LeafMinterTest, ALeafLivesForADayFromALittleAgo) {
  const X509Ptr leaf = Mint("a.example");
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(BeginOf(*leaf), clock_.now - minutes(5));
  EXPECT_EQ(EndOf(*leaf), clock_.now + hours(24));
}

TEST_F(LeafMinterTest, ALeafNeverOutlivesItsCa) {
  clock_.now += limits::kCaLife - hours(2);
  EXPECT_EQ(EndOf(*Mint("a.example")), ca_->end());
}

TEST_F(LeafMinterTest, NoTwoLeavesHaveTheSameSerialNumber) {
  const X509Ptr one = Mint("a.example"), other = Mint("a.example");
  EXPECT_NE(ASN1_INTEGER_cmp(X509_get_serialNumber(one.get()), X509_get_serialNumber(other.get())),
            0);
}

TEST_F(LeafMinterTest, ALeafIsSignedByTheCa) {
  const X509Ptr leaf = Mint("a.example");
  EXPECT_EQ(X509_verify(leaf.get(), &ca_->key()), 1);
  EXPECT_EQ(X509_check_issued(&ca_->certificate(), leaf.get()), X509_V_OK);
}

TEST_F(LeafMinterTest, NothingThatWouldSayMoreThanAHostIsMinted) {
  for (const char* const host : {"", "a.example,DNS:b.example", "a b", "*.example", "A.example"}) {
    EXPECT_EQ(Mint(host), nullptr) << host;
    EXPECT_FALSE(minter_.For(host).has_value()) << host;
  }
}

TEST_F(LeafMinterTest, IsKeptUntilAThirdOfItsLifeIsLeft) {
  const TlsServer* const first = For("a.example");
  EXPECT_NE(For("b.example"), first);
  clock_.now += hours(15);
  EXPECT_EQ(For("a.example"), first);
  clock_.now += hours(1);
  EXPECT_NE(For("a.example"), first);
}

TEST_F(LeafMinterTest, IsMadeAnewWhenTheClockIsSetBackBeforeItsBeginning) {
  const TlsServer* const first = For("a.example");
  clock_.now -= minutes(4);
  EXPECT_EQ(For("a.example"), first);
  clock_.now -= minutes(2);
  EXPECT_NE(For("a.example"), first);
}

TEST_F(LeafMinterTest, AnotherCaSignsAnew) {
  const TlsServer* const first = For("a.example");
  minter_.Use(NewCa(limits::kCaLife));
  EXPECT_NE(For("a.example"), first);
}

TEST_F(LeafMinterTest, ThoseUsedLongestAgoMakeRoom) {
  const TlsServer* const oldest = For("a.example");
  const TlsServer* const used = For("b.example");
  for (std::size_t i = 2; i < limits::kLeavesMax; ++i) For("h" + std::to_string(i) + ".example");
  EXPECT_EQ(For("a.example"), oldest);
  EXPECT_EQ(For("b.example"), used);
  For("one-more.example");  // in the place of h2
  EXPECT_EQ(For("a.example"), oldest);
  const TlsServer* const third = For("h3.example");
  EXPECT_EQ(For("h3.example"), third);
  For("h2.example");  // in the place of h4
  EXPECT_EQ(For("a.example"), oldest);
}

TEST_F(LeafMinterTest, WithoutACaOrWithOneThatHasExpiredItSaysSo) {
  clock_.now += limits::kCaLife;
  EXPECT_THAT(minter_.For("a.example").error(), testing::HasSubstr("expired"));
  minter_.Use(nullptr);
  EXPECT_THAT(minter_.For("a.example").error(), testing::HasSubstr("no CA"));
}

}  // namespace
}  // namespace recourse::leaf_minter_test
