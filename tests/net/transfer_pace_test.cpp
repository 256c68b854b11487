#include "proxy/net/message/transfer_pace.h"

#include <gtest/gtest.h>

namespace recourse::body_pace_test {
namespace {

using std::chrono::seconds;

const MonoTime kStart{std::chrono::hours(1)};

// The seconds that a body of one byte per `every` may take.
double Lasts(Millis every, std::size_t bytes_each) {
  TransferPace pace(seconds(30));
  MonoTime now = kStart;
  while (pace.Until(now) >= now + every && now < kStart + std::chrono::hours(2)) {
    pace.Took(now, now + every, bytes_each);
    now += every;
  }
  return std::chrono::duration<double>(now - kStart).count();
}

TEST(BodyPaceTest, SilenceIsBorneForTheGraceAlone) {
  const TransferPace pace(seconds(30));
  EXPECT_EQ(pace.Until(kStart), kStart + seconds(30));
}

TEST(BodyPaceTest, ABodyBelowTheLeastRateEndsHoweverSteadyItIs) {  // D02
  EXPECT_NEAR(Lasts(seconds(1), 1), 30, 2);
  EXPECT_NEAR(Lasts(Millis(10), 1), 37, 2);
  EXPECT_NEAR(Lasts(seconds(1), limits::kBodyBytesPerSecondMin / 2), 60, 3);
}

TEST(BodyPaceTest, ABodyAtTheLeastRateMayLastForEver) {
  EXPECT_GE(Lasts(seconds(1), limits::kBodyBytesPerSecondMin), 7200);
  EXPECT_GE(Lasts(Millis(100), limits::kBodyBytesPerSecondMin / 10 + 1), 7200);
}

TEST(BodyPaceTest, AFastBeginningSavesNoTimeForLater) {
  TransferPace pace(seconds(30));
  pace.Took(kStart, kStart + seconds(1), std::size_t{1} << 40);
  EXPECT_EQ(pace.Until(kStart), kStart + seconds(30));
}

}  // namespace
}  // namespace recourse::body_pace_test
