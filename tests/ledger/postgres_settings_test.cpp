// Settings and bounds of the server that a ledger in PostgreSQL lives with, or says what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/open.h"
#include "filters/ledger/postgres/operators_ledger.h"
#include "filters/ledger/shared_view.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/ledger/postgres_relay.h"
#include "tests/ledger/postgres_upkeep_fixture.h"

namespace recourse::postgres_settings_test {
namespace {

using Kind = Begun::Kind;
using testing::HasSubstr;

class PostgresSettingsTest : public PostgresUpkeepTest {
 protected:
  std::unique_ptr<PgConnection> Connect() const {
    auto opened = PgConnection::Open({.url = url_});
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().why);
    return std::move(*opened);
  }
  static std::int64_t Ask(PgConnection& connection, const PgStatement& statement) {
    connection.Queue(statement);
    const auto rows = connection.Run();
    EXPECT_TRUE(rows) << (rows ? "" : rows.error().text);
    return rows && rows->front().size() > 0 ? rows->front().Int(0, 0) : 0;
  }
  static std::uint64_t InDoubt(Ledger& ledger) {
    return dynamic_cast<SharedLedgerView&>(ledger).SharedCounts().in_doubt;
  }
  void ExpectRefused(Started<Result<Begun>>& begin) {
    clock_.Advance(Millis(2'001));
    const auto refused = begin.Get(executor_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::kLedgerUnavailable);
    EXPECT_EQ(refused.error().delivery(), Delivery::kNotSent);
  }
  void AwaitItsReturn(Ledger& ledger) {
    while (!TryBegin(ledger, Call("another"))) std::this_thread::yield();
  }
};

// Of a commit that nobody has confirmed nothing is told, also when its wait is ended.
class StandbyTest : public PostgresSettingsTest {
 protected:
  static constexpr PgStatement kAwaiting{
      "test_awaiting", "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"};
  static constexpr PgStatement kEndWaits{
      "test_end_waits",
      "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"};

  ~StandbyTest() override { Ask({}); }
  // Until it is so.
  void Ask(const std::string& standby) {
    const auto admin = Connect();
    EXPECT_TRUE(admin->Execute("ALTER SYSTEM SET synchronous_standby_names = '" + standby + "'"));
    EXPECT_TRUE(admin->Execute("SELECT pg_reload_conf()"));
    if (standby.empty()) return;
    do {
      const auto probe = PgConnection::Open({.url = url_, .answer_within = Millis(100)});
      if (probe) (void)(*probe)->Execute("CREATE TABLE probe(); DROP TABLE probe");
    } while (PostgresSettingsTest::Ask(*admin, kAwaiting) == 0);
    while (PostgresSettingsTest::Ask(*admin, kEndWaits) > 0) std::this_thread::yield();
  }
};

TEST_F(StandbyTest, WhatNoStandbyHasConfirmedIsNeitherToldNorSent) {
  const auto opened =
      OpenPostgresLedger({.store = {.connection = {.url = url_, .answer_within = Millis(1'500)},
                                    .group = "shop/checkout",
                                    .install_id = "install-1",
                                    .time = PgStoreOptions::Time::kProcess}},
                         clock_);
  ASSERT_TRUE(opened) << opened.error().why;
  Ledger& ledger = **opened;
  const Event kept = Finish(*other_, "kept");
  const auto admin = Connect();
  testing::internal::CaptureStderr();
  Ask("nobody");
  Started<Result<Begun>> begin(ledger.Begin(Call("k"), executor_));
  while (PostgresSettingsTest::Ask(*admin, kAwaiting) == 0) std::this_thread::yield();
  PostgresSettingsTest::Ask(*admin, kEndWaits);
  while (InDoubt(ledger) == 0) std::this_thread::yield();
  EXPECT_TRUE(*other_->Find(kept.id)) << "who reads waits for no commit";
  ExpectRefused(begin);
  Ask({});
  AwaitItsReturn(ledger);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("synchronous_standby_names"));
  const auto again = TryBegin(*other_, Call("k"));
  ASSERT_TRUE(again) << again.error().detail();
  EXPECT_EQ(again->kind, Kind::kFresh);
  EXPECT_EQ(again->event.attempt, 2) << "it was written, and never sent";
  EXPECT_EQ(Problem(), "");
}

TEST_F(PostgresSettingsTest, WhereAllConnectionsAreTakenItSaysSoAndGoesOnWithThoseItHas) {
  PostgresRelay relay(SocketOf(url_));
  const auto cut = OpenTestPostgres(UrlThrough(relay.directory(), url_), clock_);
  Finish(*cut, "kept");
  testing::internal::CaptureStderr();
  relay.SetAway(true);
  std::vector<PGconn*> all;
  do {
    all.push_back(PlainConnection(url_));
  } while (PQstatus(all.back()) == CONNECTION_OK);
  relay.SetAway(false);
  const int before = relay.connects();
  Started<Result<Begun>> begin(cut->Begin(Call("k"), executor_));
  EXPECT_TRUE(HappensSoon([&] { return relay.connects() > before + 1; }));  // one was refused
  std::string said;
  for (PGconn* const one : all) {
    if (PQstatus(one) != CONNECTION_OK) said = PQerrorMessage(one);
  }
  EXPECT_THAT(said, HasSubstr("too many clients"));
  ExpectRefused(begin);
  EXPECT_EQ(TryBegin(*one_, Call("kept"))->kind, Kind::kReplay);
  EXPECT_EQ(Dispatch(*one_, Call("k")).attempt, 1);
  for (PGconn* const one : all) PQfinish(one);
  AwaitItsReturn(*cut);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("max_connections"));
  EXPECT_EQ(TryBegin(*cut, Call("k"))->kind, Kind::kRunning);
}

TEST_F(PostgresSettingsTest, WhyAPolicyIsNotSharedIsTold) {
  PgReader reader(PgOptions{.url = url_});
  PgSharedPolicies policies(reader, "shop/checkout");
  std::vector<PGconn*> all;
  do {
    all.push_back(PlainConnection(url_));
  } while (PQstatus(all.back()) == CONNECTION_OK);
  const auto shared = policies.Share("v", "files", 1);
  for (PGconn* const one : all) PQfinish(one);
  ASSERT_FALSE(shared);
  EXPECT_THAT(shared.error(), HasSubstr("max_connections"));
}

TEST_F(PostgresSettingsTest, WhatTheServerSetsForSessionsEndsNothingOfOurs) {
  const std::size_t options = url_.find("options=") + sizeof("options=") - 1;
  const std::string url =
      url_.substr(0, options) + "'" + url_.substr(options) +
      " -cstatement_timeout=1s -clock_timeout=1s -cidle_in_transaction_session_timeout=1s"
      " -cidle_session_timeout=1s -cdefault_transaction_isolation=serializable'";
  // Until they are set anew they hold, also where this machine stands still for a second.
  std::unique_ptr<Ledger> harsh;
  std::string why;
  for (int tries = 0; tries < 20 && harsh == nullptr; ++tries) {
    auto opened = TryOpenTestPostgres(url, clock_, nullptr, "install-1");
    if (opened) {
      harsh = std::move(*opened);
    } else {
      why = opened.error();
    }
  }
  ASSERT_NE(harsh, nullptr) << why;
  std::thread holds([admin = Connect()] {
    EXPECT_TRUE(
        admin->Execute("BEGIN; SELECT 1 FROM stream FOR UPDATE; SELECT pg_sleep(1.2);"
                       " COMMIT"));
  });
  const Event event = Dispatch(*harsh, Call("k"));
  holds.join();
  EXPECT_TRUE(Connect()->Execute("SELECT pg_sleep(1.2)"));
  Record(*harsh, Success(event));
  const SharedLedgerCounts counts = dynamic_cast<SharedLedgerView&>(*harsh).SharedCounts();
  EXPECT_EQ(counts.in_doubt, 0U);
  EXPECT_TRUE(counts.retries.empty());
  EXPECT_EQ(TryBegin(*other_, Call("k"))->kind, Kind::kReplay);
}

// What was accepted at connect stands while the session does.
class ConfirmsLessTest : public PostgresSettingsTest {
 protected:
  static constexpr PgStatement kIsOff{
      "test_is_off",
      "SELECT count(*) FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'"};

  ~ConfirmsLessTest() override {
    Reload("RESET synchronous_commit");
    EXPECT_TRUE(HappensSoon([&] { return PgConnection::Open({.url = url_}).has_value(); }));
  }
  void Reload(const std::string& change) const {
    const auto admin = PgConnection::Open({.url = url_, .unsafe_commit = true});
    ASSERT_TRUE(admin);
    EXPECT_TRUE((*admin)->Execute("ALTER SYSTEM " + change));
    EXPECT_TRUE((*admin)->Execute("SELECT pg_reload_conf()"));
  }
};

TEST_F(ConfirmsLessTest, AReloadTakesTheConfirmationOfCommitsFromNoSession) {
  const auto safe = Connect();
  const auto unsafe = PgConnection::Open({.url = url_, .unsafe_commit = true});
  ASSERT_TRUE(unsafe);
  Reload("SET synchronous_commit = off");
  EXPECT_TRUE(HappensSoon([&] { return Ask(**unsafe, kIsOff) == 1; })) << "as the server says";
  EXPECT_TRUE(HappensSoon([&] { return !PgConnection::Open({.url = url_}); }));
  EXPECT_EQ(Ask(*safe, kIsOff), 0);
}

// A process that is stopped between two rounds of a batch.
TEST_F(PostgresSettingsTest, WhoIsStoppedWithinATransactionLocksNobodyOutForLong) {
  const auto stopped = PgConnection::Open({.url = url_, .answer_within = Millis(1'000)});
  ASSERT_TRUE(stopped && (*stopped)->Execute("BEGIN; SELECT 1 FROM stream FOR UPDATE"));
  const auto other = PgConnection::Open({.url = url_, .answer_within = Millis(60'000)});
  EXPECT_TRUE(other && (*other)->Execute("UPDATE stream SET beat = beat"));
}

}  // namespace
}  // namespace recourse::postgres_settings_test
