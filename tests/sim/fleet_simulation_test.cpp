// Seeded runs of a fleet: the real leases, guards, watches and take-overs, over a simulated
// database, network and backend. A failing seed tells what happened in it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/sim/fleet_pod.h"

namespace recourse::fleet_sim {
namespace {

constexpr std::int64_t kFaultsFor = 60'000, kCalmFor = 90'000;

class Fleet {
 public:
  Fleet(std::uint64_t seed, Faults faults, int pods) : world(seed, faults) {
    world.faults_end = world.now + kFaultsFor;
    for (int i = 0; i < pods; ++i) pods_.push_back(std::make_unique<Pod>(world, i + 1));
    for (const auto& pod : pods_) pod->Start();
  }
  void Run() {
    Fault();
    for (std::int64_t at = world.faults_end; at < world.faults_end + kCalmFor; at += 1'000) {
      world.RunUntil(at);
      for (const auto& pod : pods_) {
        if (!pod->is_alive()) pod->Start();
      }
    }
    for (const auto& [key, op] : world.database.operations) {
      if (op.phase != OpPhase::kDispatching && op.phase != OpPhase::kUnknown) continue;
      world.violations.push_back("operation " + std::to_string(key) + " is open for ever");
    }
    for (const auto& [number, row] : world.database.streams) {
      if (row.state != 2) continue;
      world.violations.push_back("nobody takes stream " + std::to_string(number) + " over");
    }
  }
  std::string Told() const {
    std::string text;
    for (const std::string& violation : world.violations) text += violation + "\n";
    for (const std::string& line : world.trace) text += line + "\n";
    return text;
  }

  World world;

 private:
  void Fault() {
    if (world.now >= world.faults_end) return;
    Pod& pod = *pods_[world.dice.Below(static_cast<unsigned>(pods_.size()))];
    const std::int64_t time = world.dice.Below(world.dice.Percent(50) ? 3'000 : 30'000);
    if (pod.is_alive() && world.dice.Percent(world.faults.pauses)) world.Pause(*pod.life(), time);
    if (pod.is_alive() && world.dice.Percent(world.faults.cuts)) {
      pod.life()->cut_until = std::min(world.now + time, world.faults_end);
    }
    if (pod.is_alive() && world.dice.Percent(world.faults.crashes)) pod.Kill();
    if (world.database.is_up && world.dice.Percent(world.faults.outages)) {
      world.database.is_up = false;
      world.Tell("the database is away");
      world.After(std::min(time, world.faults_end - world.now), nullptr, [this] {
        world.database.is_up = true;
        world.Tell("the database is back");
      });
    }
    for (const auto& one : pods_) {
      if (!one->is_alive() && world.database.is_up && world.dice.Percent(30)) one->Start();
    }
    world.After(200 + world.dice.Below(2'000), nullptr, [this] { Fault(); });
  }

  std::vector<std::unique_ptr<Pod>> pods_;
};

std::uint64_t Seeds() {
  const char* const text = std::getenv("RECOURSE_SIM_SEEDS");
  return text == nullptr ? 200 : std::strtoull(text, nullptr, 10);
}

struct Sums {
  int takeovers = 0, refused = 0, ended = 0, violated = 0;
  std::size_t effects = 0;
  std::string first;
};
Sums Play(Faults faults) {
  Sums sums;
  for (std::uint64_t seed = 1; seed <= Seeds(); ++seed) {
    Fleet fleet(seed, faults, 2 + static_cast<int>(seed % 7));
    fleet.Run();
    sums.takeovers += fleet.world.database.takeovers;
    sums.refused += fleet.world.refused;
    sums.ended += fleet.world.ended;
    sums.effects += fleet.world.effects.size();
    const bool is_false =
        faults.pauses + faults.crashes + faults.cuts == 0 && fleet.world.database.takeovers > 0;
    if (is_false) fleet.world.violations.emplace_back("who lived was taken over");
    if (fleet.world.violations.empty()) continue;
    if (sums.violated++ == 0) sums.first = "seed " + std::to_string(seed) + "\n" + fleet.Told();
  }
  return sums;
}

TEST(FleetSimulationTest, EveryCallHasOneEffectAtMostAndEnds) {
  const Sums sums =
      Play({.pauses = 20, .crashes = 15, .outages = 10, .lost_answers = 5, .cuts = 10});
  EXPECT_EQ(sums.violated, 0) << sums.first;
  EXPECT_GT(sums.takeovers, 0);
  EXPECT_GT(sums.refused, 0);
  EXPECT_GT(sums.ended, 0);
}

TEST(FleetSimulationTest, WithoutTheWatchdogAPausedProcessSendsWhatWasTakenOver) {
  const Sums sums = Play({.pauses = 20, .crashes = 15, .has_watchdog = false});
  EXPECT_GT(sums.violated, 0) << "the simulation could not fail";
}

// Whatever the database does: who lives is taken for dead by nobody.
TEST(FleetSimulationTest, ADatabaseThatIsAwayMakesNobodyDead) {
  const Sums sums = Play({.outages = 30});
  EXPECT_EQ(sums.takeovers, 0) << sums.first;
  EXPECT_EQ(sums.violated, 0) << sums.first;
  EXPECT_EQ(sums.ended, 0);
  EXPECT_GT(sums.effects, 0U);
}

}  // namespace
}  // namespace recourse::fleet_sim
