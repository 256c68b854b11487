// What only a ledger on disk can do: start again, in whatever state it was left.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "filters/ledger/commit/group_commit_ledger.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/lmdb/open.h"
#include "proxy/base/limits.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::lmdb_ledger_test {
namespace {

using Kind = Begun::Kind;
using testing::HasSubstr;

// A ledger that a test opens, uses and opens again.
class Disk {
 public:
  explicit Disk(std::string path, std::size_t hot_entries_max = limits::kHotIndexEntriesMax)
      : path_(std::move(path)), hot_entries_max_(hot_entries_max) {}

  std::string Open() {
    auto parts = OpenLmdbParts({.directory = path_, .map_bytes = 1U << 30, .unsafe_fs = true});
    if (!parts) return parts.error();
    parts->hot_entries_max = hot_entries_max_;
    auto engine = StartEngine(std::move(*parts), clock);
    if (!engine) return engine.error();
    ledger = std::make_unique<GroupCommitLedger>(std::move(*engine), clock);
    return "";
  }
  std::string Reopen() {
    ledger.reset();
    return Open();
  }
  Begun Begin(NewOperation call) {
    auto begun = Await(ledger->Begin(std::move(call), executor), executor);
    EXPECT_TRUE(begun) << (begun ? "" : begun.error().detail());
    return begun ? std::move(*begun) : Begun();
  }
  Event Dispatch(NewOperation call) {
    const Begun begun = Begin(std::move(call));
    EXPECT_EQ(begun.kind, Kind::kFresh);
    if (begun.commit) EXPECT_TRUE(Await(begun.commit->Durable(), executor));
    return begun.event;
  }
  Event Record(Transition transition) {
    auto event = Await(ledger->Record(std::move(transition), executor), executor);
    EXPECT_TRUE(event) << (event ? "" : event.error().detail());
    return event ? std::move(*event) : Event();
  }
  // Many operations at once, so that they share commits.
  void FinishMany(int first, int count) {
    std::vector<std::unique_ptr<Started<Result<Begun>>>> begins;
    for (int i = first; i < first + count; ++i) {
      begins.push_back(std::make_unique<Started<Result<Begun>>>(
          ledger->Begin(Call("k" + std::to_string(i)), executor)));
    }
    std::vector<std::unique_ptr<Started<Result<Event>>>> records;
    for (int i = 0; i < count; ++i) {
      const Begun begun = begins[static_cast<std::size_t>(i)]->Get(executor).value();
      ASSERT_EQ(begun.kind, Kind::kFresh);
      records.push_back(std::make_unique<Started<Result<Event>>>(
          ledger->Record(Success(begun.event, "body " + std::to_string(first + i)), executor)));
    }
    for (const auto& record : records) EXPECT_TRUE(record->Get(executor));
  }

  ManualClock clock;
  PumpedExecutor executor;
  std::unique_ptr<Ledger> ledger;

 private:
  const std::string path_;
  const std::size_t hot_entries_max_;
};

// Runs `use` in a child process that ends without any clean-up, as after SIGKILL.
void Killed(const std::function<void()>& use) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    use();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(LmdbLedgerTest, WhatWasDispatchingIsUncertainAfterAKill) {
  const TempDirectory directory;
  Killed([&] {
    Disk disk(directory.data());
    EXPECT_EQ(disk.Open(), "");
    disk.Dispatch(Call("running"));
    disk.Record(Success(disk.Dispatch(Call("done"))));
    disk.Record(Move(disk.Dispatch(Call("refused")), Phase::kNotSent));
  });
  Disk disk(directory.data());
  ASSERT_EQ(disk.Open(), "");
  EXPECT_EQ(disk.ledger->Stats().epoch, 2U);
  const Begun running = disk.Begin(Call("running"));
  EXPECT_EQ(running.kind, Kind::kUnknown);
  EXPECT_EQ(running.event.phase, Phase::kUncertain);
  EXPECT_EQ(running.event.cause, Cause::kCrash);
  EXPECT_EQ(running.event.epoch, 2U);
  EXPECT_EQ(disk.Begin(Call("done")).event.answer.body, "{\"id\":7}");
  EXPECT_EQ(disk.Begin(Call("refused")).event.attempt, 2);
  EXPECT_TRUE(disk.ledger->Verify().ok);
  EXPECT_EQ(disk.ledger->Stats().operations, 3U);
}

TEST(LmdbLedgerTest, RecoveryOfManyOperationsIsDoneInBatchesAndCanBeRepeated) {
  const TempDirectory directory;
  constexpr std::size_t kCount = 2 * limits::kRecoveryBatchRows + 10;
  Killed([&] {
    Disk disk(directory.data(), 100);
    EXPECT_EQ(disk.Open(), "");
    std::vector<std::unique_ptr<Started<Result<Begun>>>> begins;
    for (std::size_t i = 0; i < kCount; ++i) {
      begins.push_back(std::make_unique<Started<Result<Begun>>>(
          disk.ledger->Begin(Call("k" + std::to_string(i)), disk.executor)));
    }
    for (const auto& begin : begins) {
      EXPECT_TRUE(Await(begin->Get(disk.executor).value().commit->Durable(), disk.executor));
    }
  });
  for (const std::uint64_t epoch : {2U, 3U}) {
    Killed([&] {
      Disk disk(directory.data(), 100);
      EXPECT_EQ(disk.Open(), "");
      EXPECT_EQ(disk.ledger->Stats().epoch, epoch);
      EXPECT_EQ(disk.ledger->Stats().uncertain, kCount);
      EXPECT_EQ(disk.ledger->Stats().running, 0U);
    });
  }
  Disk disk(directory.data(), 100);
  ASSERT_EQ(disk.Open(), "");
  const VerifyReport report = disk.ledger->Verify();
  EXPECT_TRUE(report.ok) << report.problem;
  EXPECT_EQ(report.rows, 2 * kCount + 4);  // begun, uncertain, four epochs
}

TEST(LmdbLedgerTest, EverythingIsThereAfterACleanStop) {
  const TempDirectory directory;
  Disk disk(directory.data());
  ASSERT_EQ(disk.Open(), "");
  NewOperation first = Call("k1", "trace-1");
  first.event.intent = DigestOf("intent");
  const Event event = disk.Record(Success(disk.Dispatch(first)));
  NewOperation joining = Call("k2", "trace-2");
  joining.event.intent = DigestOf("intent");
  joining.across_traces = AcrossTraces::kIfUnanswered;
  EXPECT_EQ(disk.Begin(joining).kind, Kind::kReplay);
  disk.ledger->MarkAnswered({event.operation, event.attempt});
  ASSERT_EQ(disk.Reopen(), "");
  EXPECT_EQ(disk.Begin(joining).event.operation, event.operation);
  NewOperation later = Call("k3", "trace-3");
  later.event.intent = DigestOf("intent");
  later.across_traces = AcrossTraces::kIfUnanswered;
  disk.Dispatch(later);  // the mark survived
  EXPECT_EQ(disk.ledger->Stats().operations, 2U);
}

// Before the mark is written, after it, and after a start that read it.
TEST(LmdbLedgerTest, AnAnswerThatWasNotReadAfterAllIsReplayed) {
  for (const int written : {0, 1, 2}) {
    const TempDirectory directory;
    Disk disk(directory.data());
    ASSERT_EQ(disk.Open(), "");
    NewOperation call = Call("k1", "trace-1");
    call.event.intent = DigestOf("intent");
    const Event event = disk.Record(Success(disk.Dispatch(call)));
    const AttemptId answer{event.operation, event.attempt};
    disk.ledger->MarkAnswered(answer);
    disk.clock.Advance(limits::kAnsweredFlush * std::min(written, 1));
    if (written == 2) EXPECT_EQ(disk.Reopen(), "");
    disk.Begin(call);
    disk.ledger->MarkUnread({answer.operation, 2});  // another attempt's
    NewOperation again = Call("k2", "trace-2");
    again.event.intent = DigestOf("intent");
    again.across_traces = AcrossTraces::kIfUnanswered;
    disk.ledger->MarkUnread(answer);
    EXPECT_EQ(disk.Begin(again).kind, Kind::kReplay) << written;
    ASSERT_EQ(disk.Reopen(), "");
    EXPECT_EQ(disk.Begin(again).event.operation, event.operation) << written;
    disk.ledger->MarkAnswered(answer);
    again.event.key = DigestOf("k3");  // k2 means the first one by now
    disk.Dispatch(again);
    EXPECT_EQ(disk.ledger->Stats().operations, 2U) << written;
  }
}

TEST(LmdbLedgerTest, MarksAreFlushedAloneWhenNothingElseCommits) {
  const TempDirectory directory;
  Disk disk(directory.data());
  ASSERT_EQ(disk.Open(), "");
  const Event event = disk.Record(Success(disk.Dispatch(Call("k"))));
  const std::uint64_t rows = disk.ledger->Stats().last_id;
  disk.ledger->MarkAnswered({event.operation, event.attempt});
  EXPECT_EQ(disk.Begin(Call("k")).kind, Kind::kReplay);  // commits nothing
  EXPECT_EQ(disk.ledger->Stats().last_id, rows);
  disk.clock.Advance(limits::kAnsweredFlush);
  disk.Begin(Call("k"));
  disk.Begin(Call("k"));
  EXPECT_EQ(disk.ledger->Stats().last_id, rows + 1);
}

class TinyIndexTest : public testing::TestWithParam<bool> {};

// With room for eight entries nearly everything is frozen or cold, and checkpoints run all along.
TEST_P(TinyIndexTest, EveryOperationIsFoundThroughAnyPartOfTheIndex) {
  const TempDirectory directory;
  constexpr int kCount = 600;
  Disk disk(directory.data(), 8);
  ASSERT_EQ(disk.Open(), "");
  for (int first = 0; first < kCount; first += 20) disk.FinishMany(first, 20);
  NewOperation windowed = Call("windowed");
  windowed.dedupe_window = Millis(1);
  for (int i = 0; i < 3; ++i) {
    disk.Record(Success(disk.Dispatch(windowed), "generation " + std::to_string(i)));
    disk.FinishMany(kCount + i * 40, 40);
    disk.clock.Advance(Millis(2));
  }
  const Event open = disk.Record(Move(disk.Dispatch(Call("open")), Phase::kUncertain));
  disk.FinishMany(kCount + 120, 40);
  ASSERT_EQ(disk.Reopen(), "");
  if (GetParam()) {
    disk.ledger.reset();
    std::filesystem::remove_all(directory.data() + "/index");
    ASSERT_EQ(disk.Open(), "");
  }
  for (int i = 0; i < kCount; ++i) {
    const Begun begun = disk.Begin(Call("k" + std::to_string(i)));
    ASSERT_EQ(begun.kind, Kind::kReplay) << i;
    ASSERT_EQ(begun.event.answer.body, "body " + std::to_string(i));
  }
  windowed.dedupe_window = Millis(1'000);
  EXPECT_EQ(disk.Begin(windowed).event.answer.body, "generation 2");
  EXPECT_EQ(disk.Begin(Call("open")).kind, Kind::kUnknown);
  disk.Record(Success(open));
  EXPECT_EQ(disk.Begin(Call("open")).kind, Kind::kReplay);
  EXPECT_EQ(disk.ledger->Stats().operations, static_cast<std::uint64_t>(kCount + 160 + 3 + 1));
  EXPECT_TRUE(disk.ledger->Verify().ok);
}

INSTANTIATE_TEST_SUITE_P(Index, TinyIndexTest, testing::Bool(),
                         [](const auto& param) { return param.param ? "Deleted" : "Kept"; });

TEST(LmdbLedgerTest, AnIndexOfAnotherLogIsNotBelieved) {
  const TempDirectory directory;
  {
    Disk other(directory.path() + "/other");
    ASSERT_EQ(other.Open(), "");
    for (int i = 0; i < 5; ++i) other.Dispatch(Call("other" + std::to_string(i)));
  }
  Disk disk(directory.data());
  ASSERT_EQ(disk.Open(), "");
  for (int i = 0; i < 9; ++i) disk.Record(Success(disk.Dispatch(Call("k" + std::to_string(i)))));
  disk.ledger.reset();
  std::filesystem::remove_all(directory.data() + "/index");
  std::filesystem::rename(directory.path() + "/other/index", directory.data() + "/index");
  ASSERT_EQ(disk.Open(), "");
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(disk.Begin(Call("k" + std::to_string(i))).kind, Kind::kReplay);
  }
  // Something was put back here by hand.
  EXPECT_TRUE(disk.ledger->Stats().restored);
  ASSERT_TRUE(disk.ledger->AcceptRestoredBackup());
  EXPECT_EQ(disk.Begin(Call("other1")).kind, Kind::kFresh);
}

TEST(LmdbLedgerTest, AGarbageIndexIsBuiltAnew) {
  const TempDirectory directory;
  Disk disk(directory.data());
  ASSERT_EQ(disk.Open(), "");
  disk.Record(Success(disk.Dispatch(Call("k"))));
  disk.ledger.reset();
  for (const std::string& garbage : {std::string(), std::string("x"), std::string(20'000, 'x')}) {
    std::ofstream(directory.data() + "/index/data.mdb", std::ios::trunc) << garbage;
    ASSERT_EQ(disk.Open(), "") << garbage.size();
    EXPECT_EQ(disk.Begin(Call("k")).kind, Kind::kReplay);
    disk.ledger.reset();
  }
}

// Points every stored key at the wrong row, behind the ledger's back.
void MisleadIndex(const std::string& directory) {
  MDB_env* env = nullptr;
  ASSERT_EQ(mdb_env_create(&env), 0);
  mdb_env_set_mapsize(env, 1U << 30);
  mdb_env_set_maxdbs(env, 8);
  ASSERT_EQ(mdb_env_open(env, directory.c_str(), 0, 0600), 0);
  MDB_txn* txn = nullptr;
  MDB_dbi keys = 0;
  MDB_cursor* cursor = nullptr;
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
  ASSERT_EQ(mdb_dbi_open(txn, "keys", 0, &keys), 0);
  ASSERT_EQ(mdb_cursor_open(txn, keys, &cursor), 0);
  MDB_val key{};
  MDB_val value{};
  while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
    std::string entry(static_cast<const char*>(value.mv_data), value.mv_size);
    entry[0] = 2;  // the row number, little-endian
    value = {entry.size(), entry.data()};
    ASSERT_EQ(mdb_cursor_put(cursor, &key, &value, MDB_CURRENT), 0);
  }
  mdb_cursor_close(cursor);
  ASSERT_EQ(mdb_txn_commit(txn), 0);
  mdb_env_close(env);
}

TEST(LmdbLedgerTest, AWrongIndexNeverMakesAKeyFreshAndIsBuiltAnewAtTheNextStart) {
  const TempDirectory directory;
  Disk disk(directory.data());
  ASSERT_EQ(disk.Open(), "");
  disk.FinishMany(0, 5);
  disk.ledger.reset();
  MisleadIndex(directory.data() + "/index");
  ASSERT_EQ(disk.Open(), "");
  for (const char* key : {"k4", "k1", "never seen"}) {
    const auto begun = Await(disk.ledger->Begin(Call(key), disk.executor), disk.executor);
    ASSERT_FALSE(begun) << key;
    EXPECT_EQ(begun.error().code(), ErrorCode::kLedgerUnavailable) << key;
  }
  ASSERT_EQ(disk.Reopen(), "");
  EXPECT_EQ(disk.Begin(Call("k4")).event.answer.body, "body 4");
  EXPECT_EQ(disk.Begin(Call("never seen")).kind, Kind::kFresh);
}

TEST(LmdbLedgerTest, AFirstStartThatWasKilledIsRepeated) {
  const TempDirectory directory;
  std::filesystem::create_directories(directory.data() + "/new");
  std::filesystem::permissions(directory.data(), std::filesystem::perms::owner_all);
  std::ofstream(directory.data() + "/new/data.mdb") << "half a page";
  Disk disk(directory.data());
  ASSERT_EQ(disk.Open(), "");
  EXPECT_EQ(disk.Begin(Call("k")).kind, Kind::kFresh);
}

// Changes one byte of one row behind the ledger's back.
void FlipByte(const std::string& directory, std::uint64_t seq, std::size_t at) {
  MDB_env* env = nullptr;
  ASSERT_EQ(mdb_env_create(&env), 0);
  mdb_env_set_mapsize(env, 1U << 30);
  mdb_env_set_maxdbs(env, 8);
  ASSERT_EQ(mdb_env_open(env, directory.c_str(), 0, 0600), 0);
  MDB_txn* txn = nullptr;
  MDB_dbi events = 0;
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
  ASSERT_EQ(mdb_dbi_open(txn, "events", 0, &events), 0);
  std::uint64_t order = __builtin_bswap64(seq);
  MDB_val key{sizeof order, &order};
  MDB_val value{};
  ASSERT_EQ(mdb_get(txn, events, &key, &value), 0);
  std::string row(static_cast<const char*>(value.mv_data), value.mv_size);
  row[at] = static_cast<char>(row[at] ^ 1);
  value = {row.size(), row.data()};
  ASSERT_EQ(mdb_put(txn, events, &key, &value, 0), 0);
  ASSERT_EQ(mdb_txn_commit(txn), 0);
  mdb_env_close(env);
}

TEST(LmdbLedgerTest, VerifyNamesTheRowThatWasChanged) {
  const TempDirectory directory;
  Disk disk(directory.data());
  ASSERT_EQ(disk.Open(), "");
  disk.FinishMany(0, static_cast<int>(limits::kLedgerTailRows));
  disk.ledger.reset();
  FlipByte(directory.data(), 17, 200);
  ASSERT_EQ(disk.Open(), "");  // beyond the tail: found by Verify and by whoever reads the row
  const VerifyReport report = disk.ledger->Verify();
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.rows, 16U);
  EXPECT_THAT(report.problem, HasSubstr("row 17: checksum"));
  const auto found = disk.ledger->Find(17);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), ErrorCode::kLedgerUnavailable);
}

TEST(LmdbLedgerTest, ADamagedTailIsNotOpened) {
  const TempDirectory directory;
  Disk disk(directory.data());
  ASSERT_EQ(disk.Open(), "");
  for (int i = 0; i < 5; ++i) disk.Dispatch(Call("k" + std::to_string(i)));
  disk.ledger.reset();
  FlipByte(directory.data(), 3, 100);
  EXPECT_THAT(disk.Open(), HasSubstr("row 3 is damaged"));
}

TEST(LmdbLedgerTest, ASecondOpenOfOneDirectoryFailsAndNamesTheHolder) {
  const TempDirectory directory;
  Disk disk(directory.data());
  ASSERT_EQ(disk.Open(), "");
  const auto second =
      OpenLmdbLedger({.directory = directory.data(), .unsafe_fs = true}, disk.clock);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error(), HasSubstr("is another recourse running on this directory?"));
  EXPECT_THAT(second.error(), HasSubstr("process " + std::to_string(getpid())));
  EXPECT_EQ(disk.Begin(Call("k")).kind, Kind::kFresh);  // the first one is unharmed
  disk.ledger.reset();
  EXPECT_TRUE(OpenLmdbLedger({.directory = directory.data(), .unsafe_fs = true}, disk.clock));
}

TEST(LmdbLedgerTest, ThePathMustBeADirectory) {
  const TempDirectory directory;
  std::ofstream(directory.data()) << "x";
  EXPECT_THAT(Disk(directory.data()).Open(), HasSubstr("is not a directory"));
  EXPECT_THAT(Disk(directory.path() + "/no/such/parent").Open(), HasSubstr("cannot create"));
}

TEST(LmdbLedgerTest, TheDirectoryIsPrivate) {
  const TempDirectory directory;
  Disk disk(directory.data());
  ASSERT_EQ(disk.Open(), "");
  struct stat info = {};
  ASSERT_EQ(stat(directory.data().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  ASSERT_EQ(stat((directory.data() + "/data.mdb").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST(LmdbLedgerTest, ACutOrMissingFileIsRefused) {
  const TempDirectory directory;
  Disk disk(directory.data());
  ASSERT_EQ(disk.Open(), "");
  disk.FinishMany(0, 100);
  disk.ledger.reset();
  const std::string data = directory.data() + "/data.mdb";
  std::filesystem::resize_file(data, std::filesystem::file_size(data) - 4096);
  EXPECT_THAT(disk.Open(), HasSubstr("cut off"));
  std::filesystem::resize_file(data, 4096);
  EXPECT_THAT(disk.Open(), HasSubstr("cut off"));
  std::filesystem::resize_file(data, 0);
  EXPECT_THAT(disk.Open(), HasSubstr("cut off"));
  std::filesystem::remove(data);
  EXPECT_THAT(disk.Open(), HasSubstr("data.mdb is missing"));
}

// Several clients on threads of their own, with readers beside them: what the sanitizers look at.
TEST(LmdbLedgerTest, ClientsOnManyThreadsShareOneLedger) {
  const TempDirectory directory;
  constexpr int kThreads = 4;
  std::array<PumpedExecutor, kThreads> executors;  // they outlive the ledger that posts to them
  Disk disk(directory.data(), 16);
  ASSERT_EQ(disk.Open(), "");
  constexpr int kCalls = 100;
  std::atomic<int> fresh = 0;
  std::vector<std::thread> clients;
  for (int thread = 0; thread < kThreads; ++thread) {
    clients.emplace_back([&, thread] {
      PumpedExecutor& executor = executors[static_cast<std::size_t>(thread)];
      for (int i = 0; i < kCalls; ++i) {
        const Begun begun =
            Await(disk.ledger->Begin(Call("k" + std::to_string(i)), executor), executor).value();
        if (begun.kind == Kind::kFresh) {
          ++fresh;
          EXPECT_TRUE(Await(begun.commit->Durable(), executor));
          EXPECT_TRUE(Await(disk.ledger->Record(Success(begun.event), executor), executor));
          disk.ledger->MarkAnswered({begun.event.operation, begun.event.attempt});
        } else if (begun.kind == Kind::kRunning) {
          EXPECT_TRUE(Await(
              disk.ledger->Join(begun.event.operation, disk.clock.Now() + Millis(1'000), executor),
              executor));
        }
      }
    });
  }
  std::thread reader([&] {
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(disk.ledger->Verify().ok);
      EXPECT_TRUE(disk.ledger->List({.trace_id = "trace-1"}));
      EXPECT_FALSE(disk.ledger->Stats().latched);
    }
  });
  for (std::thread& client : clients) client.join();
  reader.join();
  EXPECT_EQ(fresh, kCalls);
  EXPECT_EQ(disk.ledger->Stats().operations, static_cast<std::uint64_t>(kCalls));
}

}  // namespace
}  // namespace recourse::lmdb_ledger_test
