#include "filters/ledger/lease/lease.h"

#include <gtest/gtest.h>

namespace recourse::lease_test {
namespace {

using std::chrono::milliseconds;
constexpr BootTime kStart{std::chrono::hours(1)};

TEST(LeaseTest, MaySendNothingBeforeABatchIsAcknowledged) {
  EXPECT_FALSE(Lease().MaySend(kStart));
  EXPECT_FALSE(Lease().MaySend(BootTime{}));
}

TEST(LeaseTest, CountsFromTheSendingOfTheLastAcknowledgedBatch) {
  Lease lease;
  lease.Acknowledge(kStart);
  EXPECT_EQ(lease.end(), kStart + milliseconds(5'000));
  EXPECT_TRUE(lease.MaySend(kStart + milliseconds(4'749)));
  EXPECT_FALSE(lease.MaySend(kStart + milliseconds(4'750)));
  lease.Acknowledge(kStart + milliseconds(900));
  EXPECT_EQ(lease.end(), kStart + milliseconds(5'900));
}

TEST(LeaseTest, AnAnswerThatComesLateOrOutOfOrderTakesNothingAway) {
  Lease lease;
  lease.Acknowledge(kStart + milliseconds(900));
  lease.Acknowledge(kStart);
  EXPECT_EQ(lease.end(), kStart + milliseconds(5'900));
}

TEST(LeaseTest, MaySendNothingMoreOnceItIsTakenOver) {
  Lease lease;
  lease.Acknowledge(kStart);
  lease.End();
  EXPECT_FALSE(lease.MaySend(kStart));
  lease.Acknowledge(kStart + milliseconds(1));
  EXPECT_FALSE(lease.MaySend(kStart + milliseconds(1)));
}

TEST(LeaseTest, BeatsOnceASecondWhileSomethingIsOpenAndElseNever) {
  EXPECT_EQ(BeatDue(true, kStart), kStart + milliseconds(1'000));
  EXPECT_FALSE(BeatDue(false, kStart));
}

}  // namespace
}  // namespace recourse::lease_test
