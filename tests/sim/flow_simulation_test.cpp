// Thousands of seeded runs of flows that break, over the real chain and a real ledger that is
// opened again after every death of the process. A failing seed is named and can be played again:
// ./dev sim --seed N
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "tests/sim/simulation.h"
#include "tests/support/quiet_log.h"

namespace recourse::flow_simulation_test {
namespace {

constexpr std::uint64_t kShards = 4;
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr std::uint64_t kSeeds = 1'000;
#else
constexpr std::uint64_t kSeeds = 20'000;
#endif
#endif

std::uint64_t FromEnvironment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

SimRun Play(std::uint64_t seed, bool is_told) {
  Simulation simulation(seed);
  SimRun run = simulation.Run();
  const std::vector<std::string> problems = Check(run, simulation.backend());
  if (is_told) std::cout << Tell(run);
  for (const std::string& problem : problems) {
    ADD_FAILURE() << "seed " << seed << ": " << problem << "\nto play it again: ./dev sim --seed "
                  << seed;
  }
  return run;
}

// The index was written in the order of its open operations, calls that wait for their approval
// last: one that was older than any of them stopped every checkpoint, and the next start.
TEST(CrowdedSimulationTest, ACallThatWaitsLongForItsApprovalStopsNoCheckpoint) {
  const QuietLog quiet;
  const SimRun run = Play(2, false);
  EXPECT_GT(run.with_older_claims, 0) << "this seed shows nothing any more: take another one";
}

class FlowSimulationTest : public testing::TestWithParam<std::uint64_t> {};

TEST_P(FlowSimulationTest, EveryEffectIsCompleteOrUndoneInReverseOrParked) {
  const QuietLog quiet;
  const std::uint64_t only = FromEnvironment("RECOURSE_SIM_SEED", 0);
  if (only != 0) {
    if (GetParam() == 0) (void)Play(only, true);
    return;
  }
  const std::uint64_t first = FromEnvironment("RECOURSE_SIM_FIRST", 1);
  const std::uint64_t seeds = FromEnvironment("RECOURSE_SIM_SEEDS", kSeeds);
  int with_older_claims = 0, carried = 0;
  for (std::uint64_t i = GetParam(); i < seeds && !HasFailure(); i += kShards) {
    const SimRun run = Play(first + i, false);
    with_older_claims += run.with_older_claims;
    carried += run.carried;
  }
  if (seeds < kSeeds) return;
  EXPECT_GT(with_older_claims, 0) << "no call waited for its approval through a checkpoint";
  EXPECT_GT(carried, 0) << "no row was carried";
}

INSTANTIATE_TEST_SUITE_P(Shard, FlowSimulationTest, testing::Range(std::uint64_t{0}, kShards));

}  // namespace
}  // namespace recourse::flow_simulation_test
