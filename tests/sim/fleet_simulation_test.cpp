// Seeded runs of a fleet: the real leases, guards, watches and take-overs, over a simulated
// database, network and backend. A failing seed is named, and tells what happened in it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "tests/sim/fleet_pod.h"

namespace recourse::fleet_sim {
namespace {

constexpr std::int64_t kFaultsFor = 60'000, kCalmFor = 90'000;
// What is under way when nothing is open any more has come about by then, or never does: a
// connection takes nine seconds at most, and what was sent through it not two.
constexpr std::int64_t kRestFor = 12'000;
constexpr std::uint64_t kShards = 4;
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr std::uint64_t kSeeds = 400;
#else
constexpr std::uint64_t kSeeds = 4'000;
#endif
#endif

class Fleet {
 public:
  Fleet(std::uint64_t seed, Faults faults, bool tells = false) : world(seed, faults, tells) {
    world.faults_end = world.now + kFaultsFor;
    for (int i = 0; i < 2 + static_cast<int>(seed % 7); ++i) {
      pods_.push_back(std::make_unique<Pod>(world, i + 1));
    }
    for (const auto& pod : pods_) pod->Start();
    if (faults.failovers > 0) Replicate();
  }
  void Run() {
    RunToRest();
    for (const std::string& violation : world.database.violations) {
      world.violations.push_back(violation);
    }
    const auto lives = [](const auto& life) { return life->is_alive; };
    for (const Loss& loss : world.losses) {
      if (!loss.is_noticed && std::ranges::any_of(loss.witnesses, lives)) {
        world.violations.push_back("lost commits were not noticed");
      }
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
  void RunToRest() {
    Fault();
    std::int64_t rest_since = world.faults_end;
    for (std::int64_t at = world.faults_end; at < world.faults_end + kCalmFor; at += 1'000) {
      world.RunUntil(at);
      for (const auto& pod : pods_) {
        if (!pod->is_alive()) pod->Start();
      }
      if (!IsAtRest()) rest_since = at;
      if (at - rest_since >= kRestFor) return;
    }
    JudgeEnd();
  }
  bool IsAtRest() const {
    const auto is_open = [](const auto& entry) {
      const OpPhase phase = entry.second.phase;
      return phase == OpPhase::kDispatching || phase == OpPhase::kUnknown;
    };
    const auto is_left = [](const auto& entry) {
      const StreamRow& row = entry.second;
      return row.state == 2 || (row.state == 1 && row.has_open);
    };
    const auto is_paused = [this](const auto& pod) {
      return pod->life()->paused_until > world.now;
    };
    return std::ranges::none_of(world.database.operations, is_open) &&
           std::ranges::none_of(world.database.streams, is_left) &&
           std::ranges::none_of(pods_, is_paused);
  }
  // It has never come to rest.
  void JudgeEnd() {
    for (const auto& [key, op] : world.database.operations) {
      if (op.phase != OpPhase::kDispatching && op.phase != OpPhase::kUnknown) continue;
      world.violations.push_back(fmt::format("operation {} is open for ever, {} of stream {}", key,
                                             op.phase == OpPhase::kUnknown ? "unknown" : "running",
                                             op.owner));
    }
    for (const auto& [number, row] : world.database.streams) {
      if (row.state == 2) {
        world.violations.push_back(fmt::format("nobody takes stream {} over", number));
      } else if (row.state == 1 && row.has_open) {
        world.violations.push_back(
            fmt::format("stream {} tells for ever of what it has open", number));
      }
    }
  }
  void Fault() {
    if (world.now >= world.faults_end) return;
    Pod& pod = *pods_[world.dice.Below(static_cast<unsigned>(pods_.size()))];
    const std::int64_t time = world.dice.Below(world.dice.Percent(50) ? 3'000 : 30'000);
    if (pod.is_alive() && world.dice.Percent(world.faults.pauses)) world.Pause(*pod.life(), time);
    if (pod.is_alive() && world.dice.Percent(world.faults.cuts)) {
      pod.life()->cut_until = std::min(world.now + time, world.faults_end);
    }
    if (pod.is_alive() && world.dice.Percent(world.faults.backend_cuts)) {
      pod.life()->backend_cut_until = std::min(world.now + time, world.faults_end);
      world.Tell("pod {} is cut off its backend for {}", pod.life()->pod, time);
    }
    if (pod.is_alive() && world.dice.Percent(world.faults.crashes)) pod.Kill();
    if (world.database.is_up && world.dice.Percent(world.faults.failovers)) FailOver();
    if (world.database.is_up && world.dice.Percent(world.faults.outages)) {
      GoAway(std::min(time, world.faults_end - world.now));
    }
    for (const auto& one : pods_) {
      if (!one->is_alive() && world.database.is_up && world.dice.Percent(30)) one->Start();
    }
    world.After(200 + world.dice.Below(2'000), nullptr, [this] { Fault(); });
  }
  void Replicate() {
    if (world.database.is_up) world.database.Replicate();
    const std::int64_t lag = 10 + world.dice.Below(world.dice.Percent(80) ? 300 : 3'000);
    if (world.now < world.faults_end) world.After(lag, nullptr, [this] { Replicate(); });
  }
  // To a standby that nobody has waited for.
  void FailOver() {
    Loss loss;
    for (const int key : world.database.FailOver()) loss.keys.insert(key);
    for (const auto& pod : pods_) {
      if (pod->is_alive() && pod->HasLost()) loss.witnesses.push_back(pod->life());
    }
    world.Tell("FAILOVER: {} operations are not what they were, {} pods have lost rows",
               loss.keys.size(), loss.witnesses.size());
    world.losses.push_back(std::move(loss));
    GoAway(std::min<std::int64_t>(world.dice.Below(10'000), world.faults_end - world.now));
  }
  void GoAway(std::int64_t time) {
    world.database.Stop();
    world.Tell("the database is away");
    world.After(time, nullptr, [this] {
      world.database.is_up = true;
      world.Tell("the database is back");
    });
  }

  std::vector<std::unique_ptr<Pod>> pods_;
};

std::uint64_t FromEnvironment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Sums {
  int takeovers = 0, refused = 0, ended = 0, violated = 0;
  int losses = 0, unnoticed = 0;  // of the latter nobody who lives can know
  std::size_t effects = 0;
  std::string first;
};
// So many seeds; each `every`th of them.
Sums Play(Faults faults, std::uint64_t seeds, std::uint64_t shard = 0, std::uint64_t every = 1) {
  Sums sums;
  const std::uint64_t first = FromEnvironment("RECOURSE_SIM_FIRST", 1);
  for (std::uint64_t seed = first + shard; seed < first + seeds; seed += every) {
    Fleet fleet(seed, faults);
    fleet.Run();
    sums.takeovers += fleet.world.database.takeovers;
    sums.refused += fleet.world.refused;
    sums.ended += fleet.world.ended;
    sums.effects += fleet.world.effects.size();
    for (const Loss& loss : fleet.world.losses) {
      sums.losses += !loss.keys.empty();
      sums.unnoticed += !loss.keys.empty() && !loss.is_noticed;
    }
    if (fleet.world.violations.empty() || sums.violated++ > 0) continue;
    Fleet again(seed, faults, true);
    again.Run();
    sums.first =
        fmt::format("seed {}, to play it again: ./dev sim --seed {}\n{}", seed, seed, again.Told());
  }
  return sums;
}

void PlayAgain(std::uint64_t seed, Faults faults) {
  Fleet fleet(seed, faults, true);
  fleet.Run();
  std::cout << fleet.Told();
  EXPECT_TRUE(fleet.world.violations.empty()) << "seed " << seed;
}

constexpr Faults kLasting{.pauses = 20,
                          .crashes = 15,
                          .outages = 10,
                          .lost_answers = 5,
                          .cuts = 10,
                          .backend_cuts = 10,
                          .slow_commits = 3};
// Also databases that lose what they have acknowledged.
constexpr Faults kLosing{.pauses = 20,
                         .crashes = 15,
                         .outages = 5,
                         .lost_answers = 5,
                         .cuts = 10,
                         .backend_cuts = 10,
                         .slow_commits = 3,
                         .failovers = 8};

class FleetSimulationTest : public testing::TestWithParam<std::uint64_t> {
 protected:
  // Unless one seed alone is to be played again.
  std::optional<Sums> PlayAll(Faults faults, std::uint64_t seeds) {
    if (const std::uint64_t only = FromEnvironment("RECOURSE_SIM_SEED", 0); only != 0) {
      if (GetParam() == 0) PlayAgain(only, faults);
      return std::nullopt;
    }
    const Sums sums =
        Play(faults, FromEnvironment("RECOURSE_SIM_SEEDS", seeds), GetParam(), kShards);
    EXPECT_EQ(sums.violated, 0) << sums.first;
    EXPECT_GT(sums.takeovers, 0);
    EXPECT_GT(sums.refused, 0);
    EXPECT_GT(sums.ended, 0);
    return sums;
  }
};

TEST_P(FleetSimulationTest, EveryCallHasOneEffectAtMostAndEnds) { PlayAll(kLasting, kSeeds); }

// Nobody begins anything in a ledger that is known to have been put back, and it is known as soon
// as one is there who has been told of what is gone.
TEST_P(FleetSimulationTest, WhatADatabaseLosesIsNoticed) {
  const auto sums = PlayAll(kLosing, 1'000);
  if (!sums) return;
  EXPECT_GT(sums->losses, 0);
  EXPECT_LT(sums->unnoticed * 5, sums->losses);  // of those all who had been told are dead
  RecordProperty("losses", sums->losses);
  RecordProperty("unnoticed", sums->unnoticed);
}

INSTANTIATE_TEST_SUITE_P(Shard, FleetSimulationTest, testing::Range(std::uint64_t{0}, kShards));

// Each rule that is left out alone breaks the promise, or the simulation could not fail.
class FleetMutantTest : public testing::TestWithParam<Mutant> {};

TEST_P(FleetMutantTest, IsNoticed) {
  Faults faults = kLosing;
  faults.without = GetParam();
  const bool hangs_on_answers =
      GetParam() == Mutant::kLeaseFromLastSending || GetParam() == Mutant::kTakerSaysNothing;
  if (hangs_on_answers) faults.lost_answers = 30;
  int violated = 0;
  for (std::uint64_t first = 0; violated == 0 && first < kSeeds; first += 50) {
    violated = Play(faults, first + 50, first).violated;
  }
  EXPECT_GT(violated, 0);
}

INSTANTIATE_TEST_SUITE_P(Rule, FleetMutantTest,
                         testing::Values(Mutant::kNoWatchdog, Mutant::kNoFence,
                                         Mutant::kLeaseFromLastSending, Mutant::kEndIgnored,
                                         Mutant::kEndByNumber, Mutant::kRestoredBegins,
                                         Mutant::kOutcomeOfAnyCall, Mutant::kCutIsNotSent,
                                         Mutant::kKernelKeepsBytes, Mutant::kTakerSaysNothing));

// Whatever the database does: who lives is taken for dead by nobody.
TEST(FleetFaultsTest, ADatabaseThatIsAwayMakesNobodyDead) {
  const Sums sums = Play({.outages = 30}, kSeeds / 10);
  EXPECT_EQ(sums.takeovers, 0);
  EXPECT_EQ(sums.violated, 0) << sums.first;
  EXPECT_EQ(sums.ended, 0);
  EXPECT_GT(sums.effects, 0U);
}

// A batch that is being committed holds its stream's row: who declares waits for that, and finds
// another beat.
TEST(FleetFaultsTest, CommitsThatTakeLongerThanALeaseMakeNobodyDead) {
  const Sums sums = Play({.slow_commits = 10}, kSeeds / 10);
  EXPECT_EQ(sums.takeovers, 0);
  EXPECT_EQ(sums.violated, 0) << sums.first;
  EXPECT_EQ(sums.ended, 0);
  EXPECT_GT(sums.effects, 0U);
}

}  // namespace
}  // namespace recourse::fleet_sim
