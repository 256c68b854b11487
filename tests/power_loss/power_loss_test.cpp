// The power fails at any moment (s09): creation, recovery, load, checkpoints. Every disk that it
// may leave behind starts, is whole, and holds every commit that somebody was told of.
//
// RECOURSE_IMAGES sets the number of disks (2,000), RECOURSE_POWER_SEED repeats a run.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "filters/ledger/commit/group_commit_ledger.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/lmdb/open.h"
#include "filters/ledger/queries/log_queries.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/power_loss/images.h"
#include "tests/support/quiet_log.h"

namespace recourse::power_loss_test {
namespace {

constexpr unsigned kLives = 5;
constexpr unsigned kRounds = 14;
constexpr std::uint64_t kMapBytes = 1U << 24;  // a ring of 64 blocks, which is passed often
enum Mark : unsigned { kDispatched = 0, kFinished = 1, kStarting = 2, kStarted = 3 };

std::uint64_t NumberFrom(const char* variable, std::uint64_t otherwise) {
  const char* const text = getenv(variable);
  return text == nullptr ? otherwise : strtoull(text, nullptr, 10);
}

// So short that rows leave, tombstones move and open operations are carried all the time.
const LedgerRule kRule{.retention = Millis(1'500), .tombstones = Millis(1'000'000)};

std::shared_ptr<const LedgerKeys> Keys() {
  static SystemRandom random;
  const std::string line = "k1 " + std::string(62, 'a') + "bc";
  return std::make_shared<LedgerKeys>(*KeyRing::Parse(line), random);
}

std::string KeyOf(unsigned number) { return "k" + std::to_string(number); }

// One life of a process over the directory, in a child. Every second one is killed.
void Live(const std::string& directory, unsigned life, std::mt19937_64& random) {
  ManualClock clock;
  PumpedExecutor executor;
  shim_mark(kStarting);
  auto parts = OpenLmdbParts({.directory = directory, .map_bytes = kMapBytes, .unsafe_fs = true});
  if (!parts) _exit(2);
  parts->keys = Keys();
  parts->hot_entries_max = 24;  // so that checkpoints run
  auto engine = StartEngine(std::move(*parts), clock);
  if (!engine) _exit(3);
  auto ledger = std::make_unique<GroupCommitLedger>(std::move(*engine), clock);
  ledger->SetRule(kRule);
  shim_mark(kStarted);
  unsigned number = life * 10'000;
  for (unsigned round = 0; round < kRounds; ++round) {
    std::map<unsigned, std::unique_ptr<Started<Result<Begun>>>> begins;
    std::map<unsigned, std::unique_ptr<Started<Result<Event>>>> records;
    for (auto left = 1 + random() % 10; left > 0; --left, ++number) {
      begins[number] =
          std::make_unique<Started<Result<Begun>>>(ledger->Begin(Call(KeyOf(number)), executor));
    }
    for (const auto& [key, begin] : begins) {
      const auto begun = begin->Get(executor);
      if (!begun || !Await(begun->commit->Durable(), executor)) _exit(4);
      shim_mark(key << 2 | kDispatched);
      if (random() % 6 == 0) continue;
      records[key] = std::make_unique<Started<Result<Event>>>(ledger->Record(
          Success(begun->event, std::string(200 + random() % 6'000, 'b')), executor));
    }
    for (const auto& [key, record] : records) {
      const auto event = record->Get(executor);
      if (!event) _exit(5);
      shim_mark(key << 2 | kFinished);
      ledger->MarkAnswered({event->operation, event->attempt});
    }
    clock.Advance(Millis(300));
  }
  if (life % 2 == 0) _exit(0);
  ledger.reset();
  _exit(0);
}

// A recorded history of one ledger, and what was told when.
class PowerLossTest : public testing::Test {
 protected:
  void SetUp() override {
    plan_.seed = NumberFrom("RECOURSE_POWER_SEED", static_cast<std::uint64_t>(getpid()));
    plan_.images = NumberFrom("RECOURSE_IMAGES", 2'000);
    plan_.scratch = scratch_.path() + "/images";
    plan_.keys = Keys();
    const std::string directory = scratch_.data();
    std::mt19937_64 random(plan_.seed);
    for (unsigned life = 0; life < kLives; ++life) {
      const std::uint64_t seed = random();
      const std::string log = scratch_.path() + "/log" + std::to_string(life);
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        const QuietLog quiet(LogLevel::kError);
        std::mt19937_64 own(seed);
        shim_record(directory.c_str(), log.c_str());
        Live(directory, life, own);
      }
      int status = 0;
      waitpid(child, &status, 0);
      ASSERT_EQ(status, 0) << "life " << life;
      log_.Add(log);
    }
    ReadMarks();
  }

  void ReadMarks() {
    bool is_starting = false;
    for (std::size_t i = 0; i < log_.entries().size(); ++i) {
      const ShimRecord& record = log_.entries()[i].record;
      if (is_starting) plan_.busy.push_back(i);
      if (record.kind != ShimKind::kMark) continue;
      const auto mark = static_cast<unsigned>(record.offset & 3U);
      is_starting = mark == kStarting || (is_starting && mark != kStarted);
      if (mark == kStarting || mark == kStarted) continue;
      plan_.acknowledged.push_back({i, DigestOf(KeyOf(static_cast<unsigned>(record.offset >> 2U))),
                                    mark == kFinished, false});
    }
    std::set<Digest> finished;
    for (const Acknowledged& one : plan_.acknowledged) {
      if (one.is_finished) finished.insert(one.key);
    }
    for (Acknowledged& one : plan_.acknowledged) one.stays_open = !finished.contains(one.key);
  }

  // What the last life left, when it is started once more.
  LedgerStats Left() const {
    const SystemClock clock;
    auto parts =
        OpenLmdbParts({.directory = scratch_.data(), .map_bytes = kMapBytes, .unsafe_fs = true});
    if (!parts) return {};
    parts->keys = Keys();
    auto engine = StartEngine(std::move(*parts), clock);
    return engine ? (*engine)->Stats() : LedgerStats();
  }

  std::size_t Count(ShimKind kind) const {
    return static_cast<std::size_t>(
        std::count_if(log_.entries().begin(), log_.entries().end(),
                      [kind](const ShimEntry& entry) { return entry.record.kind == kind; }));
  }

  const TempDirectory scratch_{MemoryPath()};
  ShimLog log_;
  ImagePlan plan_;
};

TEST_F(PowerLossTest, EveryDiskAPowerCutMayLeaveStartsAndHoldsWhatWasAcknowledged) {
  ASSERT_GT(plan_.acknowledged.size(), 300U);
  ASSERT_GT(Count(ShimKind::kDsyncEnd), 100U) << "the meta page is written through O_DSYNC";
  ASSERT_GT(Count(ShimKind::kSyncEnd), 100U);
  ASSERT_GT(plan_.busy.size(), 50U);
  const auto left = Left();
  ASSERT_GT(left.tombstones, 100U);
  ASSERT_GT(left.first_id, 300U);
  ASSERT_GT(left.uncertain, 20U) << "carried on";
  const ImageReport report = CheckImages(log_, plan_);
  RecordProperty("images", static_cast<int>(report.images + report.nested));
  printf("seed %lu: %zu disks, %zu more after a second cut, %zu log entries, %zu commits told\n",
         plan_.seed, report.images, report.nested, log_.entries().size(),
         plan_.acknowledged.size());
  for (const std::string& finding : report.findings) {
    ADD_FAILURE() << "seed " << plan_.seed << ", " << finding;
  }
}

// The same disks find what a weaker mode would lose, so they would find it in this one.
TEST_F(PowerLossTest, ADiskThatIgnoresSyncsLosesCommitsAndIsFoundOut) {
  plan_.images = 400;
  plan_.trust = {.fdatasync = false, .dsync = false};
  EXPECT_FALSE(CheckImages(log_, plan_).findings.empty());
  plan_.trust = {.fdatasync = true, .dsync = false};  // as MDB_NOMETASYNC
  EXPECT_FALSE(CheckImages(log_, plan_).findings.empty());
}

// One start over a directory of schema 1, with the power cut at any moment of it, and again during
// the start after that.
TEST(OldLedgerPowerLossTest, AnOldLedgerIsTakenOverOrLeftAsItWas) {
  const TempDirectory scratch(MemoryPath());
  const std::string directory = scratch.data(), log = scratch.path() + "/log";
  const std::string command = "tar -xzf tests/ledger/fixtures/schema1.tar.gz -C " + scratch.path();
  ASSERT_EQ(std::system(command.c_str()), 0);
  ImagePlan plan;
  plan.seed = NumberFrom("RECOURSE_POWER_SEED", static_cast<std::uint64_t>(getpid()));
  plan.images = 300;
  plan.scratch = scratch.path() + "/images";
  plan.start.emplace();
  plan.start->Begin(directory);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const QuietLog quiet(LogLevel::kError);
    const ManualClock clock;
    shim_record(directory.c_str(), log.c_str());
    auto parts = OpenLmdbParts({.directory = directory, .map_bytes = kMapBytes, .unsafe_fs = true});
    _exit(parts && StartEngine(std::move(*parts), clock) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  const ManualClock clock;
  auto parts = OpenLmdbParts({.directory = directory, .map_bytes = kMapBytes, .unsafe_fs = true});
  ASSERT_TRUE(parts);
  const auto engine = StartEngine(std::move(*parts), clock);
  ASSERT_TRUE(engine);
  EventFilter all;
  all.limit = 1'000;
  for (const Event& event : ListEvents((*engine)->log(), nullptr, all)->events) {
    if (event.generation != 0 || event.window_ms != 0) continue;
    if (event.phase == Phase::kSucceeded) plan.acknowledged.push_back({0, event.key, true, false});
    if (event.cause == Cause::kCrash) plan.acknowledged.push_back({0, event.key, false, true});
  }
  ASSERT_EQ(plan.acknowledged.size(), 3U);
  const ShimLog history = ShimLog::Load(log);
  ASSERT_GT(history.entries().size(), 10U);
  const ImageReport report = CheckImages(history, plan);
  EXPECT_GT(report.nested, 20U);
  for (const std::string& finding : report.findings) {
    ADD_FAILURE() << "seed " << plan.seed << ", " << finding;
  }
}

}  // namespace
}  // namespace recourse::power_loss_test
