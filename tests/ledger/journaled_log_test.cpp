// The log of the product: a journal in front of LMDB, over a real directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "filters/ledger/engine/engine.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/lmdb/backup_file.h"
#include "filters/ledger/lmdb/journaled_event_log.h"
#include "filters/ledger/lmdb/open.h"
#include "filters/ledger/queries/log_queries.h"
#include "filters/ledger/rows/row_codec.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/support/quiet_log.h"

namespace recourse::journaled_log_test {
namespace {

using Kind = Begun::Kind;
using testing::HasSubstr;

constexpr std::uint64_t kMapBytes = 1U << 24;  // a ring of 64 blocks

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class JournaledLogTest : public testing::Test {
 protected:
  std::string Open(std::uint64_t map_bytes = kMapBytes) {
    engine_.reset();
    auto parts =
        OpenLmdbParts({.directory = directory_.data(), .map_bytes = map_bytes, .unsafe_fs = true});
    if (!parts) return parts.error();
    auto engine = StartEngine(std::move(*parts), clock_);
    if (!engine) return engine.error();
    engine_ = std::move(*engine);
    return "";
  }
  // Begins and ends an operation, in two commits. False when a commit fails.
  bool Finish(const std::string& key, std::size_t body = 300) {
    NewOperation call = Call(key);
    const auto begun = engine_->Begin(call);
    if (!begun || !engine_->Commit()) return false;
    Transition success = Success(begun->begun.event, std::string(body, 'b'));
    return engine_->Record(success) && engine_->Commit();
  }
  Kind KindOf(const std::string& key) {
    NewOperation call = Call(key);
    const auto step = engine_->Begin(call);
    return step ? step->begun.kind : Kind::kConflict;
  }
  VerifyReport Verify() {
    return VerifyLog(engine_->log(), nullptr, engine_->head().seq, engine_->head().hash);
  }
  // In a child that ends without any clean-up, as after SIGKILL.
  static void Killed(const std::function<bool()>& use) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(use() ? 0 : 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }

  void BackUp(const std::string& to) {
    auto copy = engine_->log().StartCopy();
    ASSERT_TRUE(copy) << copy.error();
    std::ofstream file(to, std::ios::binary);
    char bytes[65'536];
    for (ssize_t size = 0; (size = read((*copy)->fd(), bytes, sizeof bytes)) > 0;) {
      file.write(bytes, size);
    }
    ASSERT_TRUE((*copy)->Finish());
    std::filesystem::permissions(to, std::filesystem::perms(0600));
  }
  // As data.mdb, and without the index, which would know of an older copy too.
  void PutBack(const std::string& copy) const {
    std::filesystem::remove_all(directory_.data() + "/index");
    std::filesystem::permissions(copy, std::filesystem::perms(0600));
    std::filesystem::rename(copy, data());
  }

  std::string data() const { return directory_.data() + "/data.mdb"; }
  std::string journal() const { return directory_.data() + "/journal"; }

  // Leaves a ledger with more rows in the journal alone, a record each, as if the process had been
  // killed before they were moved.
  void LeaveInJournal(const std::vector<std::string>& keys) {
    engine_.reset();
    auto file = DataFile::Open(data());
    ASSERT_TRUE(file) << file.error();
    auto log = LmdbEventLog::Open(std::move(*LmdbEnv::Open(directory_.data(), kMapBytes)),
                                  std::move(*file));
    ASSERT_TRUE(log) << log.error();
    auto opened = JournalFile::Open(journal(), (*log)->identity());
    ASSERT_TRUE(opened && *opened);
    const JournalState state{(*log)->journal().generation + 1, true, (*opened)->head().id};
    ASSERT_TRUE((*opened)->Stamp({state.generation, JournalStep::kBegun}));
    ASSERT_TRUE((*log)->SetJournal(state));
    std::string last;
    ASSERT_TRUE((*log)->NewReader()->Read((*log)->last_seq(), last));
    std::uint64_t seq = (*log)->last_seq(), at = 0;
    for (const std::string& key : keys) {
      Event event = Call(key).event;
      event.id = event.operation = ++seq;
      event.phase = Phase::kDispatching;
      event.attempt = 1;
      RowBatch batch;
      batch.first_seq = seq;
      AppendEventRow(batch.bytes, event, RowHash(last), nullptr);
      batch.ends.push_back(batch.bytes.size());
      last = batch.bytes;
      const auto record = EncodeJournalRecord((*opened)->head().id, state.generation, batch);
      ASSERT_TRUE((*opened)->Write(at, record.bytes));
      at += record.bytes.size();
    }
  }

  Digest engine_identity_{};
  const QuietLog quiet_;
  TempDirectory directory_{FastParent()};
  ManualClock clock_;
  std::unique_ptr<Engine> engine_;
};

// The ring is passed many times, so that writers wait for rows to move, while readers look.
TEST_F(JournaledLogTest, EveryRowIsReadWhereverItIs) {
  ASSERT_EQ(Open(), "");
  EventLog& log = engine_->log();
  std::atomic<bool> is_over = false;
  std::atomic<std::uint64_t> looks = 0;
  std::string problem;
  std::thread reader([&] {
    const auto rows = log.NewReader();
    for (std::uint64_t from = 1; !is_over || looks == 0; from = from * 7 % 997 + 1) {
      const std::uint64_t last = log.last_seq();
      std::uint64_t expected = from;
      const bool is_read = rows->Scan(from, 500, [&](std::uint64_t seq, std::string_view bytes) {
        const auto row = ParseRow(bytes);
        if (seq != expected || !row || row->head.seq != seq) problem = "a scan skips a row";
        ++expected;
        return problem.empty();
      });
      if (!is_read || expected < std::min(last + 1, from + 500)) problem = "a scan ends early";
      std::string bytes;
      if (!rows->Read(last, bytes) || ParseRow(bytes)->head.seq != last) problem = "no newest row";
      if (rows->Read(last + 1'000'000, bytes)) problem = "a row that never was";
      if (!problem.empty()) return;
      ++looks;
    }
  });
  for (int i = 0; i < 600; ++i) EXPECT_TRUE(Finish("k" + std::to_string(i), 1'500));
  is_over = true;
  reader.join();
  EXPECT_EQ(problem, "");
  EXPECT_TRUE(Verify().ok) << Verify().problem;
  EXPECT_EQ(Verify().rows, 1'201U);
}

TEST_F(JournaledLogTest, WhatIsInTheJournalAloneIsThereAfterAKill) {
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(Finish("before"));
  LeaveInJournal({"newest"});
  ASSERT_EQ(VerifyLedgerFile(data())->rows, 3U);
  ASSERT_EQ(Open(), "");
  EXPECT_FALSE(engine_->is_restored());
  EXPECT_EQ(KindOf("newest"), Kind::kUnknown);
  EXPECT_EQ(KindOf("before"), Kind::kReplay);
  EXPECT_TRUE(Verify().ok) << Verify().problem;
}

TEST_F(JournaledLogTest, KillsAtAnyMomentLoseNothing) {
  for (int life = 0; life < 8; ++life) {
    Killed([&] {
      if (!Open().empty() || engine_->is_restored()) return false;
      for (int i = 0; i < 40; ++i) {
        if (!Finish(std::to_string(life) + "-" + std::to_string(i), 5'000)) return false;
      }
      return true;
    });
  }
  ASSERT_EQ(Open(), "");
  EXPECT_FALSE(engine_->is_restored());
  for (int life = 0; life < 8; ++life) {
    for (int i = 0; i < 40; ++i) {
      ASSERT_EQ(KindOf(std::to_string(life) + "-" + std::to_string(i)), Kind::kReplay);
    }
  }
  EXPECT_TRUE(Verify().ok) << Verify().problem;
}

TEST_F(JournaledLogTest, AJournalThatHeldRowsAndIsGoneIsALoss) {
  const std::vector<std::function<void()>> losses = {
      [this] { std::filesystem::remove(journal()); },
      [this] { std::filesystem::resize_file(journal(), 100'000); },
      [this] { std::filesystem::resize_file(journal(), 0); },
      [this] {  // as it was before that process
        auto file = JournalFile::Open(journal(), engine_identity_);
        ASSERT_TRUE(file && *file && (*file)->Stamp({(*file)->stamp().generation - 1}));
      },
      [this] {  // another ledger's
        const std::string other = directory_.path() + "/other";
        ASSERT_TRUE(OpenLmdbParts({.directory = other, .map_bytes = kMapBytes, .unsafe_fs = true}));
        std::filesystem::rename(other + "/journal", journal());
        std::filesystem::remove_all(other);
      }};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    ASSERT_EQ(Open(), "");
    EXPECT_TRUE(Finish("before" + std::to_string(i)));
    engine_identity_ = engine_->log().identity();
    LeaveInJournal({"lost" + std::to_string(i)});
    std::filesystem::remove(journal() + ".lost");
    losses[i]();
    for (int start = 0; start < 2; ++start) {
      ASSERT_EQ(Open(), "") << i;
      EXPECT_TRUE(engine_->is_restored()) << i;
    }
    EXPECT_EQ(std::filesystem::exists(journal() + ".lost"), i > 0) << "what was there is kept";
    ASSERT_TRUE(engine_->AcceptRestoredBackup());
    ASSERT_EQ(Open(), "");
    EXPECT_FALSE(engine_->is_restored());
    EXPECT_EQ(KindOf("before" + std::to_string(i)), Kind::kReplay);
  }
}

// Every bit of what is used of head, stamp and records, and of what data.mdb notes of them.
TEST_F(JournaledLogTest, AFlippedBitNeverHidesARowThatWasConfirmed) {
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(Finish("before"));
  LeaveInJournal({"a", "b"});
  const std::string good = directory_.path() + "/good";
  std::filesystem::copy(directory_.data(), good, std::filesystem::copy_options::recursive);
  const std::string bytes = ReadAll(journal());
  const std::string meta = ReadAll(data());
  ASSERT_NE(meta.find("journal"), std::string::npos);
  std::vector<std::pair<std::string, std::size_t>> places;
  for (std::size_t at = 0; at < 68; ++at) places.emplace_back("/journal", at);
  for (std::size_t at = 0; at < 32; ++at) places.emplace_back("/journal", kJournalBlockBytes + at);
  for (std::size_t at = 0; at < 400; at += 7) places.emplace_back("/journal", kJournalRingAt + at);
  for (auto name = meta.find("journal"); name != std::string::npos;
       name = meta.find("journal", name + 1)) {
    for (std::size_t at = 0; at < 7 + 29; ++at) places.emplace_back("/data.mdb", name + at);
  }
  for (const auto& [name, at] : places) {
    for (int bit = 0; bit < 8; bit += 3) {
      engine_.reset();
      std::filesystem::remove_all(directory_.data());
      std::filesystem::copy(good, directory_.data(), std::filesystem::copy_options::recursive);
      std::filesystem::permissions(directory_.data(), std::filesystem::perms(0700));
      std::string changed = name == "/journal" ? bytes : meta;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      std::ofstream(directory_.data() + name, std::ios::binary) << changed;
      if (!Open().empty() || engine_->is_restored()) continue;
      EXPECT_EQ(KindOf("a"), Kind::kUnknown) << name << " " << at << " " << bit;
      EXPECT_EQ(KindOf("b"), Kind::kUnknown) << name << " " << at << " " << bit;
    }
  }
}

TEST_F(JournaledLogTest, AnEmptyLogThatLostItsFirstRowsSaysSo) {
  ASSERT_EQ(Open(), "");
  engine_.reset();
  const std::string first = directory_.path() + "/first";
  Killed([&]() -> bool {
    const auto parts =
        OpenLmdbParts({.directory = first, .map_bytes = kMapBytes, .unsafe_fs = true});
    _exit(parts && parts->log->last_seq() == 0 ? 0 : 1);
  });
  std::filesystem::remove(first + "/journal");
  const auto parts = OpenLmdbParts({.directory = first, .map_bytes = kMapBytes, .unsafe_fs = true});
  ASSERT_TRUE(parts) << parts.error();
  EXPECT_TRUE(parts->accept_restored);
}

TEST_F(JournaledLogTest, AnOlderDataFileBesideTheJournalIsALoss) {
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(Finish("old"));
  engine_.reset();
  std::filesystem::copy_file(data(), directory_.path() + "/old");
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(Finish("new"));
  engine_.reset();
  PutBack(directory_.path() + "/old");
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(engine_->is_restored());
  EXPECT_EQ(KindOf("old"), Kind::kReplay);
}

TEST_F(JournaledLogTest, AnOlderDataFileBesideAJournalThatWasMadeAnewIsALoss) {
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(Finish("old"));
  engine_.reset();
  std::filesystem::copy_file(data(), directory_.path() + "/old");
  std::filesystem::remove(journal());
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(Finish("new"));
  engine_.reset();
  PutBack(directory_.path() + "/old");
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(engine_->is_restored());
  EXPECT_EQ(KindOf("old"), Kind::kReplay);
}

// The answer is too large for the ring, so no record tells of it.
TEST_F(JournaledLogTest, ABackupThatIsPutBackIsALossThoughTheJournalFollowsOnIt) {
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(Finish("old"));
  const std::string backup = directory_.path() + "/backup";
  BackUp(backup);
  EXPECT_TRUE(Finish("new", 700'000));
  engine_.reset();
  PutBack(backup);
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(engine_->is_restored());
  EXPECT_EQ(KindOf("old"), Kind::kReplay);
  EXPECT_EQ(KindOf("new"), Kind::kUnknown) << "that it began is in the journal";
}

TEST_F(JournaledLogTest, WhatIsLeftOfTwoLossesIsKept) {
  for (const std::string name : {".lost", ".lost.2"}) {
    ASSERT_EQ(Open(), "");
    EXPECT_TRUE(Finish("before" + name));
    LeaveInJournal({"lost" + name});
    std::fstream(journal()).put('x');
    const std::string left = ReadAll(journal());
    ASSERT_EQ(Open(), "");
    EXPECT_TRUE(engine_->is_restored());
    EXPECT_EQ(ReadAll(journal() + name), left);
    ASSERT_TRUE(engine_->AcceptRestoredBackup());
  }
}

// Its own lock holds also where somebody put another data.mdb and another lock file there.
TEST_F(JournaledLogTest, AJournalThatIsInUseIsNotTaken) {
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(Finish("k"));
  BackUp(directory_.path() + "/copy");
  std::filesystem::remove(directory_.data() + "/recourse.lock");
  PutBack(directory_.path() + "/copy");
  const auto twin =
      OpenLmdbParts({.directory = directory_.data(), .map_bytes = kMapBytes, .unsafe_fs = true});
  ASSERT_FALSE(twin);
  EXPECT_THAT(twin.error(), HasSubstr("its journal is in use by another process"));
}

TEST_F(JournaledLogTest, AClosedJournalIsNotNeeded) {
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(Finish("k"));
  engine_.reset();
  ASSERT_EQ(VerifyLedgerFile(data())->rows, 3U);
  for (const bool is_damaged : {true, false}) {
    if (is_damaged) {
      std::ofstream(journal(), std::ios::trunc) << "noise";
    } else {
      std::filesystem::remove(journal());
    }
    ASSERT_EQ(Open(), "");
    EXPECT_FALSE(engine_->is_restored());
    EXPECT_EQ(KindOf("k"), Kind::kReplay);
    EXPECT_TRUE(Finish(is_damaged ? "a" : "b"));
    engine_.reset();
    EXPECT_GT(std::filesystem::file_size(journal()), kJournalRingBytesMin);
  }
}

TEST_F(JournaledLogTest, AJournalThatOthersControlIsRefused) {
  ASSERT_EQ(Open(), "");
  engine_.reset();
  std::filesystem::permissions(journal(), std::filesystem::perms(0666));
  const std::string refused = Open();
  EXPECT_THAT(refused, HasSubstr("journal belongs to uid"));
  EXPECT_THAT(refused, HasSubstr("move it away, and start again")) << "as it was closed";
  std::filesystem::permissions(journal(), std::filesystem::perms(0600));
  std::filesystem::rename(journal(), directory_.path() + "/elsewhere");
  std::filesystem::create_symlink(directory_.path() + "/elsewhere", journal());
  EXPECT_THAT(Open(), HasSubstr("journal is a symbolic link"));
  std::filesystem::remove(journal());
  std::filesystem::create_directory(journal());
  EXPECT_THAT(Open(), HasSubstr("the journal cannot be opened"));
  std::filesystem::remove(journal());
  ASSERT_EQ(Open(), "");
  EXPECT_FALSE(engine_->is_restored());
  LeaveInJournal({"newest"});
  std::filesystem::permissions(journal(), std::filesystem::perms(0666));
  EXPECT_THAT(Open(), HasSubstr("it may hold the newest rows"));
}

TEST_F(JournaledLogTest, ABatchThatIsTooLargeForTheRingTakesTheLongWay) {
  Killed([this] {
    if (!Open().empty()) return false;
    for (int i = 0; i < 6; ++i) {
      const std::size_t body = i % 2 == 0 ? 700'000 : 100;
      if (!Finish("k" + std::to_string(i), body)) return false;
    }
    return Verify().ok;
  });
  ASSERT_EQ(Open(), "");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(KindOf("k" + std::to_string(i)), Kind::kReplay);
  EXPECT_TRUE(Verify().ok) << Verify().problem;
}

TEST_F(JournaledLogTest, ABackupHasEverythingThatWasConfirmed) {
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(Finish("newest"));
  const std::string backup = directory_.path() + "/backup";
  BackUp(backup);
  const auto report = VerifyLedgerFile(backup);
  ASSERT_TRUE(report) << report.error();
  EXPECT_TRUE(report->ok);
  EXPECT_EQ(report->rows, 3U);
}

void LimitFiles(rlim_t bytes) {
  signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, bytes};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST_F(JournaledLogTest, WithoutRoomForAJournalEveryBatchTakesTheLongWay) {
  Killed([this] {
    LimitFiles(4 * 1024 * 1024);
    return Open(std::uint64_t{1} << 30).empty() && Finish("k") &&
           !std::filesystem::exists(journal());
  });
  EXPECT_FALSE(std::filesystem::exists(journal()));
  EXPECT_EQ(VerifyLedgerFile(data())->rows, 3U);
  ASSERT_EQ(Open(), "");
  EXPECT_FALSE(engine_->is_restored());
  EXPECT_TRUE(std::filesystem::exists(journal())) << "there is room now";
  EXPECT_EQ(KindOf("k"), Kind::kReplay);
}

// What was confirmed is read on, nothing more is taken, and the next start moves it.
TEST_F(JournaledLogTest, RowsThatCannotBeMovedLatchTheLogAndAreNotLost) {
  const std::string count = directory_.path() + "/count";
  Killed([&] {
    if (!Open().empty()) return false;
    LimitFiles(300 * 1024);  // the journal has its place, and data.mdb wants more
    int done = 0;
    while (Finish("k" + std::to_string(done), 3'000)) {
      if (++done == 10'000) return false;
    }
    std::ofstream(count) << done;
    // It may be full before the rows were tried to be moved; a copy waits for that.
    if (engine_->log().StartCopy() || !engine_->log().has_failed()) return false;
    for (int i = 0; i < done; ++i) {
      if (KindOf("k" + std::to_string(i)) != Kind::kReplay) return false;
    }
    engine_.reset();
    return true;
  });
  ASSERT_EQ(Open(), "");
  const int done = std::stoi(ReadAll(count));
  EXPECT_GT(done, 20);
  for (int i = 0; i < done; ++i) ASSERT_EQ(KindOf("k" + std::to_string(i)), Kind::kReplay) << i;
  EXPECT_FALSE(engine_->is_restored());
  EXPECT_TRUE(Verify().ok) << Verify().problem;
}

}  // namespace
}  // namespace recourse::journaled_log_test
