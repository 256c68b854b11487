#include "proxy/redirect/redirect_admission.h"

#include <gtest/gtest.h>

namespace recourse::arrival_test {
namespace {

constexpr std::uint32_t kOwnUser = 19080, kAgent = 1000;

Tcp::endpoint At(const char* address, std::uint16_t port) {
  return {boost::asio::ip::make_address(address), port};
}

class ArrivalTest : public testing::Test {
 protected:
  ArrivalTest() {
    own_.Add(At("127.0.0.1", 19080));
    own_.Add(At("127.0.0.1", 19083));
    own_.Add(At("::1", 19083));
    own_.Add(At("0.0.0.0", 19082));
  }
  ArrivalRefusal Judge(std::optional<Tcp::endpoint> original,
                       std::optional<std::uint32_t> owner = kAgent) const {
    const RedirectAdmission arrival{.local = At("127.0.0.1", 19083),
                                    .peer = At("10.1.2.3", 40000),
                                    .original = original,
                                    .owner = owner};
    return JudgeArrival(arrival, own_, kOwnUser);
  }
  OwnListeners own_;
};

TEST_F(ArrivalTest, AnAgentsConnectionToSomebodyElseComesIn) {
  EXPECT_EQ(Judge(At("10.9.9.9", 80)), ArrivalRefusal::kNone);
  EXPECT_EQ(Judge(At("fd00::9", 443)), ArrivalRefusal::kNone);
  // The port alone makes nothing ours.
  EXPECT_EQ(Judge(At("10.9.9.9", 19083)), ArrivalRefusal::kNone);
  EXPECT_EQ(Judge(At("10.9.9.9", 19082)), ArrivalRefusal::kNone);
}

TEST_F(ArrivalTest, WhatNothingRedirectedDoesNot) {
  EXPECT_EQ(Judge(std::nullopt), ArrivalRefusal::kDirect);
  EXPECT_EQ(Judge(At("127.0.0.1", 19083)), ArrivalRefusal::kDirect);
}

TEST_F(ArrivalTest, WhatWasMeantForThisPodDoesNot) {
  EXPECT_EQ(Judge(At("127.0.0.1", 8080)), ArrivalRefusal::kLoopback);
  EXPECT_EQ(Judge(At("127.9.9.9", 8080)), ArrivalRefusal::kLoopback);
  EXPECT_EQ(Judge(At("::1", 8080)), ArrivalRefusal::kLoopback);
  EXPECT_EQ(Judge(At("127.0.0.1", 19080)), ArrivalRefusal::kOwnListener);
  EXPECT_EQ(Judge(At("::1", 19083)), ArrivalRefusal::kOwnListener);
  EXPECT_EQ(Judge(At("10.1.2.3", 19082)), ArrivalRefusal::kOwnListener);
}

TEST_F(ArrivalTest, OursAndThoseOfNobodyDoNot) {
  EXPECT_EQ(Judge(At("10.9.9.9", 80), kOwnUser), ArrivalRefusal::kOwnUser);
  EXPECT_EQ(Judge(At("10.9.9.9", 80), std::nullopt), ArrivalRefusal::kUnknownPeer);
}

TEST_F(ArrivalTest, EachRefusalHasANameAndAdvice) {
  for (const ArrivalRefusal refusal :
       {ArrivalRefusal::kDirect, ArrivalRefusal::kLoopback, ArrivalRefusal::kOwnListener,
        ArrivalRefusal::kUnknownPeer, ArrivalRefusal::kOwnUser}) {
    EXPECT_FALSE(NameOf(refusal).empty());
    EXPECT_FALSE(AdviceOn(refusal).empty());
  }
}

}  // namespace
}  // namespace recourse::arrival_test
