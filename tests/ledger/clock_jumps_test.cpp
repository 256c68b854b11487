#include "filters/ledger/rules/clock_jumps.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace recourse::wall_jumps_test {
namespace {

constexpr std::int64_t kHour = 3'600'000;
constexpr std::int64_t kYear = 365 * 24 * kHour;

// Both clocks of a process: time is lived through, and the wall clock is set now and then.
struct Clocks {
  MonoTime now{};
  std::int64_t wall_ms = 1'800'000'000'000;
  ClockJumps jumps{now, wall_ms};

  void Live(std::int64_t ms) {
    now += Millis(ms);
    wall_ms += ms;
  }
  // Writes a row and gives the wall time in it.
  std::int64_t Write(std::uint64_t seq) {
    jumps.Note(seq, now, wall_ms);
    return wall_ms;
  }
  std::int64_t Age(std::uint64_t seq, std::int64_t written_ms) const {
    return jumps.AgeMs(seq, written_ms, now, wall_ms);
  }
};

TEST(WallJumpsTest, OnlyTimeLivedThroughMakesARowOlder) {
  for (const std::int64_t jump_ms :
       {-10 * kYear, -kHour, -100L, 0L, 100L, 25 * kHour, 10 * kYear}) {
    Clocks clocks;
    clocks.Live(1'000);
    const std::int64_t first = clocks.Write(7);
    clocks.Live(2'000);
    clocks.wall_ms += jump_ms;
    EXPECT_EQ(clocks.Age(7, first), 2'000) << jump_ms;
    const std::int64_t second = clocks.Write(8);
    clocks.Live(5'000);
    EXPECT_EQ(clocks.Age(7, first), 7'000) << jump_ms;
    EXPECT_NEAR(static_cast<double>(clocks.Age(8, second)), 5'000, 500) << jump_ms;
  }
}

TEST(WallJumpsTest, RowsOfAnEarlierRunAreAsOldAsTheWallClockSaysAtTheStart) {
  Clocks clocks;
  const std::int64_t before = clocks.wall_ms - kHour;
  clocks.Live(1'000);
  clocks.wall_ms += kYear;
  clocks.Write(100);
  EXPECT_EQ(clocks.Age(5, before), kHour + 1'000);
}

TEST(WallJumpsTest, ManyJumpsMakeRowsYoungerAndNeverOlder) {
  Clocks clocks;
  std::vector<std::int64_t> written;
  for (std::uint64_t seq = 1; seq <= 2'000; ++seq) {
    clocks.wall_ms += seq % 2 == 0 ? kHour : -kHour / 2;
    written.push_back(clocks.Write(seq));
    clocks.Live(10);
  }
  for (std::uint64_t seq = 1; seq <= 2'000; ++seq) {
    const std::int64_t lived_ms = static_cast<std::int64_t>(2'001 - seq) * 10;
    EXPECT_LE(clocks.Age(seq, written[seq - 1]), lived_ms) << seq;
    if (seq > 1'800) EXPECT_EQ(clocks.Age(seq, written[seq - 1]), lived_ms) << seq;
  }
}

}  // namespace
}  // namespace recourse::wall_jumps_test
