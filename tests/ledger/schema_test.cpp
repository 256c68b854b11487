// A ledger that an older version wrote (tests/ledger/fixtures/README.md) is taken over whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lmdb.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "filters/ledger/engine/engine.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/lmdb/backup_file.h"
#include "filters/ledger/lmdb/open.h"
#include "filters/ledger/queries/log_queries.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::schema_test {
namespace {

using Kind = Begun::Kind;
using testing::HasSubstr;

class OldLedger : public testing::Test {
 protected:
  OldLedger() {
    const std::string command =
        "tar -xzf tests/ledger/fixtures/schema1.tar.gz -C " + directory_.path();
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  std::string Open() {
    engine_.reset();
    auto parts =
        OpenLmdbParts({.directory = directory_.data(), .map_bytes = 1U << 30, .unsafe_fs = true});
    if (!parts) return parts.error();
    auto engine = StartEngine(std::move(*parts), clock_);
    if (!engine) return engine.error();
    engine_ = std::move(*engine);
    return "";
  }
  // The last event of every operation, by path and generation.
  std::map<std::string, Event> LastEvents() {
    EventFilter filter;
    filter.limit = 1000;
    std::map<std::string, Event> last;
    for (Event& event : ListEvents(engine_->log(), nullptr, filter)->events) {
      last[event.path + "#" + std::to_string(event.generation)] = event;
    }
    return last;
  }
  Begun Repeat(const Event& event) {
    NewOperation call;
    call.event = event;
    call.event.key = event.base_key;
    call.failed_ttl = Millis(60'000'000'000'000);
    if (event.window_ms != 0) call.dedupe_window = Millis(60'000'000'000'000);
    auto step = engine_->Begin(call);
    EXPECT_TRUE(step) << step.error().detail();
    EXPECT_TRUE(engine_->Commit());
    return step ? std::move(step->begun) : Begun();
  }
  // The schema number in the file, or what is written there, without the entry `removed`.
  std::string Schema(const std::string* value = nullptr, std::string removed = "") {
    MDB_env* env = nullptr;
    mdb_env_create(&env);
    mdb_env_set_maxdbs(env, 8);
    EXPECT_EQ(mdb_env_open(env, directory_.data().c_str(), 0, 0600), 0);
    MDB_txn* txn = nullptr;
    MDB_dbi meta = 0;
    EXPECT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
    EXPECT_EQ(mdb_dbi_open(txn, "meta", 0, &meta), 0);
    MDB_val key{6, const_cast<char*>("schema")};
    MDB_val data{};
    if (value != nullptr) {
      data = {value->size(), const_cast<char*>(value->data())};
      EXPECT_EQ(mdb_put(txn, meta, &key, &data, 0), 0);
    }
    MDB_val other{removed.size(), removed.data()};
    if (!removed.empty()) EXPECT_EQ(mdb_del(txn, meta, &other, nullptr), 0);
    EXPECT_EQ(mdb_get(txn, meta, &key, &data), 0);
    std::string found(static_cast<char*>(data.mv_data), data.mv_size);
    EXPECT_EQ(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    return found;
  }

  TempDirectory directory_;
  ManualClock clock_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(OldLedger, EveryOperationIsThereAndAnswersAsItDid) {
  ASSERT_EQ(Schema(), "1");
  ASSERT_EQ(Open(), "");
  const auto last = LastEvents();
  ASSERT_EQ(last.size(), 7U);
  EXPECT_EQ(last.at("/plain/succeeded#0").phase, Phase::kSucceeded);
  EXPECT_EQ(last.at("/plain/rejected#0").phase, Phase::kRejected);
  EXPECT_EQ(last.at("/plain/unknown#0").phase, Phase::kUncertain);
  EXPECT_EQ(last.at("/windowed/w#1").phase, Phase::kSucceeded);
  EXPECT_EQ(last.at("/plain/alias#0").phase, Phase::kSucceeded);
  EXPECT_EQ(last.at("/plain/running#0").phase, Phase::kUncertain);
  EXPECT_EQ(last.at("/plain/running#0").cause, Cause::kCrash);

  const Begun replay = Repeat(last.at("/plain/succeeded#0"));
  EXPECT_EQ(replay.kind, Kind::kReplay);
  EXPECT_THAT(replay.event.answer.body, HasSubstr("e000001"));
  EXPECT_EQ(Repeat(last.at("/plain/rejected#0")).kind, Kind::kReplay);
  EXPECT_EQ(Repeat(last.at("/plain/unknown#0")).kind, Kind::kUnknown);
  EXPECT_EQ(Repeat(last.at("/plain/running#0")).kind, Kind::kUnknown);
  EXPECT_EQ(Repeat(last.at("/windowed/w#0")).event.operation, last.at("/windowed/w#1").operation);
  EXPECT_EQ(engine_->Stats().operations, 7U);
}

TEST_F(OldLedger, ItIsAppendedToVerifiedAndForgottenAWholeRetentionLater) {
  ASSERT_EQ(Open(), "");
  const Event old = LastEvents().at("/plain/succeeded#0");
  const Event alias = LastEvents().at("/plain/alias#0");
  NewOperation call = Call("new");
  auto begun = engine_->Begin(call);
  ASSERT_TRUE(begun);
  Transition success = Success(begun->begun.event);
  ASSERT_TRUE(engine_->Record(success) && engine_->Commit());
  const auto verify = [this] {
    return VerifyLog(engine_->log(), nullptr, engine_->head().seq, engine_->head().hash);
  };
  EXPECT_TRUE(verify().ok) << verify().problem;
  engine_.reset();
  EXPECT_EQ(Schema(), "5");
  ASSERT_EQ(Open(), "");

  // Nobody knows how old these rows are, so their time begins now.
  const LedgerRule rule;
  clock_.Advance(rule.retention - Millis(1'000));
  ASSERT_TRUE(engine_->Retire(rule));
  EXPECT_EQ(Repeat(old).kind, Kind::kReplay);
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(Millis(3'600'000));
    ASSERT_TRUE(engine_->Retire(rule));
  }
  EXPECT_EQ(Repeat(old).kind, Kind::kExpired);
  EXPECT_EQ(Repeat(alias).kind, Kind::kExpired);
  EXPECT_GT(verify().first_id, 1U);
  EXPECT_TRUE(verify().ok) << verify().problem;
}

// But for the journal that its log knows nothing of, schema 2 was like this one.
TEST_F(OldLedger, ALedgerOfSchema2IsTakenOver) {
  ASSERT_EQ(Open(), "");
  const Event old = LastEvents().at("/plain/succeeded#0");
  engine_.reset();
  const std::string schema = "2";
  Schema(&schema, "journal");
  std::filesystem::remove(directory_.data() + "/journal");
  ASSERT_EQ(Open(), "");
  EXPECT_FALSE(engine_->is_restored());
  EXPECT_EQ(Repeat(old).kind, Kind::kReplay);
  engine_.reset();
  EXPECT_EQ(Schema(), "5");
}

TEST_F(OldLedger, AStartThatIsRefusedLeavesTheOldSchema) {
  auto parts = OpenLmdbParts(
      {.directory = directory_.data(),
       .map_bytes = 1U << 30,
       .unsafe_fs = true,
       .secrets = [](const LedgerFacts&) { return std::unexpected(std::string("no key")); }});
  ASSERT_FALSE(parts);
  EXPECT_EQ(Schema(), "1");
}

TEST_F(OldLedger, AnOldFileIsVerifiedWithoutBeingTouched) {
  const auto report = VerifyLedgerFile(directory_.data() + "/data.mdb");
  ASSERT_TRUE(report) << report.error();
  EXPECT_TRUE(report->ok) << report->problem;
  EXPECT_EQ(Schema(), "1");
}

TEST_F(OldLedger, ANewerSchemaIsRefusedAndLeftAlone) {
  const std::string newer = "6";
  Schema(&newer);
  EXPECT_THAT(Open(), HasSubstr("it was written with schema 6, this version reads schemas 1 to 5; "
                                "start the version that wrote it"));
  EXPECT_EQ(Schema(), "6");
}

}  // namespace
}  // namespace recourse::schema_test
