// A log that came from a backup: what was done after it is not remembered, so nothing new is let
// through before somebody has accepted that.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/ledger/lmdb/lmdb_ledger.h"
#include "filters/ledger/postgres/connection.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::restored_test {
namespace {

using Kind = Begun::Kind;

class RestoredTest : public testing::Test {
 protected:
  void Open(const std::string& path) {
    ledger.reset();
    auto opened =
        OpenLmdbLedger({.directory = path, .map_bytes = 1U << 30, .unsafe_fs = true}, clock);
    ASSERT_TRUE(opened) << opened.error();
    ledger = std::move(*opened);
  }
  Result<Begun> Begin(NewOperation call) {
    auto begun = Await(ledger->Begin(std::move(call), executor), executor);
    if (begun && begun->commit) EXPECT_TRUE(Await(begun->commit->Durable(), executor));
    return begun;
  }
  void Succeed(std::string_view key) {
    const auto begun = Begin(Call(key));
    ASSERT_TRUE(begun);
    ASSERT_TRUE(Await(ledger->Record(Success(begun->event), executor), executor));
  }
  void ExpectNothingNewUntilAccepted(const std::string& path) {
    for (int start = 0; start < 2; ++start) {
      EXPECT_TRUE(ledger->Stats().restored);
      EXPECT_EQ(Begin(Call("before"))->kind, Kind::kReplay);
      const auto refused = Begin(Call("after"));
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code(), ErrorCode::kLedgerRestored);
      EXPECT_EQ(refused.error().delivery(), Delivery::kNotSent);
      Open(path);
    }
    ASSERT_TRUE(ledger->AcceptRestoredBackup());
    EXPECT_FALSE(ledger->Stats().restored);
    EXPECT_EQ(Begin(Call("after"))->kind, Kind::kFresh);
    Open(path);
    EXPECT_FALSE(ledger->Stats().restored);
    EXPECT_EQ(Begin(Call("more"))->kind, Kind::kFresh);
  }
  std::string backup() const { return directory.path() + "/backup"; }
  void Copy(const std::string& from, const std::string& to) {
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::permissions(to, std::filesystem::perms(0600));
  }

  TempDirectory directory{FastParent()};
  ManualClock clock;
  PumpedExecutor executor;
  std::unique_ptr<Ledger> ledger;
};

TEST_F(RestoredTest, ABackupInANewDirectoryLetsNothingNewThroughUntilItIsAccepted) {
  Open(directory.data());
  Succeed("before");
  ledger.reset();
  const std::string other = directory.path() + "/other";
  std::filesystem::create_directory(other);
  std::filesystem::permissions(other, std::filesystem::perms(0700));
  Copy(directory.data() + "/data.mdb", other + "/data.mdb");
  Open(other);
  ExpectNothingNewUntilAccepted(other);
}

TEST_F(RestoredTest, AnOlderCopyInPlaceOfTheFileIsNoticedByTheIndex) {
  Open(directory.data());
  Succeed("before");
  ledger.reset();
  Copy(directory.data() + "/data.mdb", backup());
  Open(directory.data());
  Succeed("after");
  ledger.reset();
  Copy(backup(), directory.data() + "/data.mdb");
  Open(directory.data());
  ExpectNothingNewUntilAccepted(directory.data());
}

TEST_F(RestoredTest, WhatNeverLeftItsDirectoryIsNotRestored) {
  Open(directory.data());
  Succeed("a");
  Open(directory.data());
  EXPECT_FALSE(ledger->Stats().restored);
  Succeed("b");
  ledger.reset();
  std::filesystem::remove_all(directory.data() + "/index");
  Open(directory.data());
  EXPECT_FALSE(ledger->Stats().restored);
  EXPECT_TRUE(ledger->AcceptRestoredBackup());  // nothing to accept
}

// The same whatever says that it was restored.
class RestoredStoresTest : public testing::TestWithParam<Store> {
 protected:
  Result<Begun> Begin(NewOperation call) {
    auto begun = Await(ledger->Begin(std::move(call), executor), executor);
    if (begun && begun->commit) EXPECT_TRUE(Await(begun->commit->Durable(), executor));
    return begun;
  }
  Event Succeed(NewOperation call) {
    const auto begun = Begin(std::move(call));
    EXPECT_TRUE(begun);
    const auto done = Await(ledger->Record(Success(begun->event), executor), executor);
    EXPECT_TRUE(done);
    return *done;
  }
  void Restart() {
    ledger.reset();
    ledger = store.Open(clock);
  }
  void Restore() {
    if (store.is_shared()) {
      const auto connection = PgConnection::Open({.url = store.url()});
      ASSERT_TRUE(connection && (*connection)
                                    ->Execute("UPDATE ledger SET restored_at = now();"
                                              " UPDATE stream SET held = true"));
    } else {
      ledger.reset();
      std::filesystem::remove(store.data() + "/recourse.sealed");
      ledger = store.Open(clock);
    }
    EXPECT_TRUE(ledger->Stats().restored);
  }
  void ExpectRefused(NewOperation call) {
    const auto refused = Begin(std::move(call));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::kLedgerRestored);
    EXPECT_EQ(refused.error().delivery(), Delivery::kNotSent);
  }

  StoredLedger store{GetParam()};
  ManualClock clock;
  PumpedExecutor executor;
  std::unique_ptr<Ledger> ledger = store.Open(clock);
};

TEST_P(RestoredStoresTest, NothingNewIsLetThroughUntilItIsAccepted) {
  Succeed(Call("before"));
  Restore();
  for (int start = 0; start < 2; ++start) {
    EXPECT_TRUE(ledger->Stats().restored);
    EXPECT_EQ(Begin(Call("before"))->kind, Kind::kReplay);
    ExpectRefused(Call("after"));
    Restart();
  }
  ASSERT_TRUE(ledger->AcceptRestoredBackup());
  EXPECT_FALSE(ledger->Stats().restored);
  EXPECT_EQ(Begin(Call("after"))->kind, Kind::kFresh);
  Restart();
  EXPECT_FALSE(ledger->Stats().restored);
  EXPECT_EQ(Begin(Call("more"))->kind, Kind::kFresh);
}

TEST_P(RestoredStoresTest, AnUndoThatMayHaveBeenSentAfterTheBackupWaitsUntilItIsAccepted) {
  NewOperation step = Call("step", "flow-1");
  step.event.is_step = true;
  const Event done = Succeed(std::move(step));
  for (const auto& [from, to] : {std::pair(FlowPhase::kOpen, FlowPhase::kBreaking),
                                 std::pair(FlowPhase::kBreaking, FlowPhase::kUndoing)}) {
    ASSERT_TRUE(
        Await(ledger->MoveFlow({.number = done.operation, .from = from, .to = to, .reason = ""},
                               executor),
              executor));
  }
  Restore();
  NewOperation undo = Call("", "flow-1");
  undo.event.key = UndoKeyOf(done.key, done.operation);
  undo.event.undoes = done.operation;
  ExpectRefused(undo);
  ASSERT_TRUE(ledger->AcceptRestoredBackup());
  EXPECT_EQ(Begin(undo)->kind, Kind::kFresh);
}

TEST_P(RestoredStoresTest, ObserveModeRefusesNothing) {
  Succeed(Call("before"));
  Restore();
  NewOperation call = Call("seen");
  call.event.verdict = ObserveVerdict::kFresh;
  EXPECT_TRUE(Begin(call));
}

INSTANTIATE_TEST_SUITE_P(Stores, RestoredStoresTest,
                         testing::Values(Store::kLmdb, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::restored_test
