// The key index is derived from the log: whatever it holds, and whether it can be written or not, a
// start succeeds and every key has its answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lmdb.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/commit/group_commit_ledger.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/lmdb/lmdb_cold_index.h"
#include "filters/ledger/lmdb/open.h"
#include "tests/ledger/approval_ledger.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::index_start_test {
namespace {

using Kind = Begun::Kind;

// An index whose writes fail for as long as the test wants.
class FailingIndex final : public ColdIndex {
 public:
  FailingIndex(std::unique_ptr<ColdIndex> index, const bool& fails)
      : index_(std::move(index)), fails_(fails) {}
  std::optional<ColdEntry> FindKey(const Digest& key) override { return index_->FindKey(key); }
  std::optional<std::uint64_t> FindIntent(const Digest& intent) override {
    return index_->FindIntent(intent);
  }
  bool is_damaged() const override { return index_->is_damaged(); }
  std::expected<void, std::string> Write(const IndexSnapshot& snapshot) override {
    if (fails_) return std::unexpected("no room");
    return index_->Write(snapshot);
  }
  std::optional<IndexMark> LoadMark() override { return index_->LoadMark(); }
  std::expected<void, std::string> Clear() override { return index_->Clear(); }

 private:
  const std::unique_ptr<ColdIndex> index_;
  const bool& fails_;
};

// A call that waits for its approval is older than one that runs, and than all that have ended.
class IndexStartTest : public testing::Test {
 protected:
  static constexpr int kCount = 60;

  std::string Open() {
    ledger_.reset();
    auto parts =
        OpenLmdbParts({.directory = directory_.data(), .map_bytes = 1U << 30, .unsafe_fs = true});
    if (!parts) return parts.error();
    parts->hot_entries_max = hot_entries_max_;
    parts->cold = std::make_unique<FailingIndex>(std::move(parts->cold), fails_);
    auto engine = StartEngine(std::move(*parts), clock_);
    if (!engine) return engine.error();
    ledger_ = std::make_unique<GroupCommitLedger>(std::move(*engine), clock_);
    return "";
  }
  Begun Begin(NewOperation call) {
    auto begun = Await(ledger_->Begin(std::move(call), executor_), executor_);
    EXPECT_TRUE(begun) << (begun ? "" : begun.error().detail());
    if (!begun) return {};
    if (begun->commit) EXPECT_TRUE(Await(begun->commit->Durable(), executor_));
    return std::move(*begun);
  }
  void Fill() {
    EXPECT_EQ(Begin(Asking("gated")).kind, Kind::kHeld);
    EXPECT_EQ(Begin(Call("running")).kind, Kind::kFresh);
    for (int i = 0; i < kCount; ++i) {
      const Begun begun = Begin(Call("k" + std::to_string(i)));
      Transition done = Success(begun.event, "body " + std::to_string(i));
      EXPECT_TRUE(Await(ledger_->Record(std::move(done), executor_), executor_));
    }
  }
  void ExpectEverything() {
    EXPECT_EQ(ledger_->Stats().approvals_pending, 1U);
    EXPECT_EQ(Begin(Asking("gated")).kind, Kind::kHeld);
    EXPECT_EQ(Begin(Call("running")).kind, Kind::kUnknown);
    for (int i = 0; i < kCount; ++i) {
      const Begun begun = Begin(Call("k" + std::to_string(i)));
      EXPECT_EQ(begun.kind, Kind::kReplay) << i;
      EXPECT_EQ(begun.event.answer.body, "body " + std::to_string(i));
    }
    EXPECT_TRUE(ledger_->Verify().ok);
  }

  const TempDirectory directory_;
  ManualClock clock_;
  PumpedExecutor executor_;
  std::size_t hot_entries_max_ = 8;
  bool fails_ = false;
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(IndexStartTest, ACallThatWaitsLongForItsApprovalStopsNoStart) {
  ASSERT_EQ(Open(), "");
  Fill();
  for (int start = 0; start < 3; ++start) {
    ASSERT_EQ(Open(), "");
    ExpectEverything();
  }
  ledger_.reset();
  std::filesystem::remove_all(directory_.data() + "/index");
  ASSERT_EQ(Open(), "");
  ExpectEverything();
}

// Changes every value of a database of the index, behind the ledger's back.
void Change(const std::string& directory, const char* name, std::size_t at) {
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi database = 0;
  MDB_cursor* cursor = nullptr;
  ASSERT_EQ(mdb_env_create(&env), 0);
  mdb_env_set_mapsize(env, 1U << 30);
  mdb_env_set_maxdbs(env, 8);
  ASSERT_EQ(mdb_env_open(env, directory.c_str(), 0, 0600), 0);
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
  ASSERT_EQ(mdb_dbi_open(txn, name, 0, &database), 0);
  ASSERT_EQ(mdb_cursor_open(txn, database, &cursor), 0);
  MDB_val key{};
  MDB_val value{};
  int changed = 0;
  while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
    std::string bytes(static_cast<const char*>(value.mv_data), value.mv_size);
    bytes[at % bytes.size()] = static_cast<char>(bytes[at % bytes.size()] ^ 0x7f);
    value = {bytes.size(), bytes.data()};
    ASSERT_EQ(mdb_cursor_put(cursor, &key, &value, MDB_CURRENT), 0);
    ++changed;
  }
  EXPECT_GT(changed, 0) << name;
  mdb_cursor_close(cursor);
  ASSERT_EQ(mdb_txn_commit(txn), 0);
  mdb_env_close(env);
}

TEST_F(IndexStartTest, OpenOperationsThatLeadNowhereAreFoundAnewInTheLog) {
  ASSERT_EQ(Open(), "");
  Fill();
  const std::uint64_t operations = ledger_->Stats().operations;
  for (const char* database : {"open", "meta"}) {
    for (const std::size_t at : {0U, 1U, 4U, 7U, 12U, 44U, 52U, 53U, 60U, 68U, 76U, 84U, 95U}) {
      ledger_.reset();
      Change(directory_.data() + "/index", database, at);
      ASSERT_EQ(Open(), "") << database << " " << at;
      EXPECT_TRUE(ledger_->Stats().is_index_rebuilt) << database << " " << at;
      EXPECT_EQ(ledger_->Stats().operations, operations) << database << " " << at;
      ExpectEverything();
    }
  }
  ASSERT_EQ(Open(), "");
  EXPECT_FALSE(ledger_->Stats().is_index_rebuilt);
}

TEST(ColdIndexTest, ADamagedByteOfTheMarkIsFound) {
  const TempDirectory directory;
  const auto load = [&]() -> std::optional<IndexMark> {
    auto env = LmdbEnv::Open(directory.data(), 1U << 30);
    auto index = LmdbColdIndex::Open(std::move(*env), LmdbEnv::Missing::kFail);
    return (*index)->LoadMark();
  };
  std::filesystem::create_directories(directory.data());
  IndexSnapshot snapshot;
  snapshot.mark = {.applied_seq = 9,
                   .applied_hash = Sha256("row"),
                   .first_seq = 3,
                   .operations = 4,
                   .tombstones = 5,
                   .accepted_seq = 6,
                   .open = {{3, 7}, {4, 8}},
                   .moved = {{1, Sha256("one")}, {2, Sha256("two")}},
                   .flows = "what the book of flows says"};
  {
    auto env = LmdbEnv::Open(directory.data(), 1U << 30);
    auto index = LmdbColdIndex::Open(std::move(*env), LmdbEnv::Missing::kMake);
    ASSERT_TRUE((*index)->Write(snapshot));
  }
  ASSERT_TRUE(load());
  EXPECT_EQ(load()->moved.size(), 2U);
  for (const auto& [database, bytes] : {std::pair("open", 8U), {"moved", 32U}, {"meta", 96U}}) {
    for (std::size_t at = 0; at < bytes; ++at) {
      Change(directory.data(), database, at);
      EXPECT_FALSE(load()) << database << " " << at;
      Change(directory.data(), database, at);
      EXPECT_TRUE(load()) << database << " " << at;
    }
  }
}

TEST_F(IndexStartTest, AnIndexThatCannotBeWrittenStopsNoStartAndIsWrittenLater) {
  ASSERT_EQ(Open(), "");
  Fill();
  ledger_.reset();
  std::filesystem::remove_all(directory_.data() + "/index");
  fails_ = true;
  hot_entries_max_ = 30;
  ASSERT_EQ(Open(), "");
  ExpectEverything();
  // Another thread writes it.
  for (int i = 0; i < 100'000 && !ledger_->Stats().is_index_failing; ++i) Begin(Call("k0"));
  EXPECT_TRUE(ledger_->Stats().is_index_failing);
  ledger_.reset();
  fails_ = false;
  ASSERT_EQ(Open(), "");
  ExpectEverything();
  EXPECT_FALSE(ledger_->Stats().is_index_failing);
}

TEST_F(IndexStartTest, AnIndexTooLargeForMemoryThatCannotBeWrittenIsToldWithWhatToDo) {
  ASSERT_EQ(Open(), "");
  // The first rows are frozen together, and those behind them stay in memory.
  const int many = static_cast<int>(limits::kScanChunkRows + limits::kCommitBatchMax) + 100;
  for (int i = 0; i < many; ++i) EXPECT_EQ(Begin(Call("n" + std::to_string(i))).kind, Kind::kFresh);
  ledger_.reset();
  std::filesystem::remove_all(directory_.data() + "/index");
  fails_ = true;
  EXPECT_THAT(Open(), testing::HasSubstr("no room; give the disk more room and start again"));
  fails_ = false;
  ASSERT_EQ(Open(), "");
}

}  // namespace
}  // namespace recourse::index_start_test
