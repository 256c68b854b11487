// Roles of the database: each may do its task, and nothing with rows of another group.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/ledger/postgres/open.h"
#include "filters/ledger/postgres/schema.h"
#include "filters/ledger/postgres/upkeep/audit.h"
#include "filters/ledger/postgres/upkeep/grants.h"
#include "filters/ledger/postgres/upkeep/keeper.h"
#include "filters/ledger/postgres/upkeep/table_check.h"
#include "filters/ledger/queries/operation_queries.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/ledger/postgres_server.h"

namespace recourse::postgres_grants_test {
namespace {

// Groups A and B, each with a pod of its own role, on one server with the roles of other tests.
class GrantsTest : public testing::Test {
 protected:
  static std::string UrlAs(const std::string& url, const std::string& role) {
    std::string as = url;
    return as.replace(as.find("user=recourse"), std::string("user=recourse").size(),
                      "user=" + role);
  }
  static std::unique_ptr<PgConnection> Connect(const std::string& url) {
    auto opened = PgConnection::Open({.url = url});
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().why);
    return opened ? std::move(*opened) : nullptr;
  }
  void SetUp() override {
    const auto owner = Connect(url_);
    for (const auto& [task, role, group] :
         {PgGrant{PgTask::kPod, "pod_a", "a"}, PgGrant{PgTask::kPod, "pod \"b'", "b"},
          PgGrant{PgTask::kKeeper, "keeper_a", "a"}, PgGrant{PgTask::kReader, "reader", ""}}) {
      std::string quoted = role;
      if (const auto at = quoted.find('"'); at != std::string::npos) quoted.insert(at, 1, '"');
      ASSERT_TRUE(owner->Execute("DO $$ BEGIN CREATE ROLE \"" + quoted +
                                 "\" LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"));
      for (int again = 0; again < 2; ++again) {
        const auto given = GrantPg(*owner, {task, role, group});
        ASSERT_TRUE(given) << given.error().why;
      }
    }
    a_ = Open(url_a_, "a");
    b_ = Open(url_b_, "b");
  }
  std::unique_ptr<Ledger> Open(const std::string& url, const std::string& group) {
    auto opened = OpenPostgresLedger({.store = {.connection = {.url = url},
                                                .group = group,
                                                .pod = "pod-" + group,
                                                .version = "test",
                                                .install_id = "install-1"},
                                      .wait = std::chrono::minutes(1)},
                                     clock_);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().why);
    return opened ? std::move(*opened) : nullptr;
  }
  Event Finish(Ledger& ledger, std::string_view key, std::string_view trace) {
    NewOperation call = Call(key, trace);
    call.event.is_step = true;
    auto begun = Await(ledger.Begin(std::move(call), executor_), executor_);
    EXPECT_TRUE(begun && begun->commit && Await(begun->commit->Durable(), executor_));
    auto done = Await(ledger.Record(Success(begun->event), executor_), executor_);
    EXPECT_TRUE(done) << (done ? "" : done.error().detail());
    return done ? std::move(*done) : Event();
  }
  // The number that a statement gives; -1: the role may not.
  static std::int64_t Ask(PgConnection& connection, const char* name, const char* sql) {
    connection.Queue({name, sql});
    const auto rows = connection.Run();
    return rows ? rows->front().Int(0, 0) : -1;
  }

  SystemClock clock_;
  PumpedExecutor executor_;
  const std::string url_ = FreshPostgresLedger();
  const std::string url_a_ = UrlAs(url_, "pod_a"), url_b_ = UrlAs(url_, "'pod \"b\\''");
  std::unique_ptr<Ledger> a_, b_;
};

TEST_F(GrantsTest, APodDoesItsWorkAndSeesNothingOfAnotherGroup) {
  const Event of_a = Finish(*a_, "a", "trace-a"), of_b = Finish(*b_, "b", "trace-b");
  auto* const lister = dynamic_cast<OperationLister*>(a_.get());
  const auto page = lister->Operations({});
  ASSERT_TRUE(page);
  ASSERT_EQ(page->events.size(), 1U);
  EXPECT_EQ(page->events.front().operation, of_a.operation);
  EXPECT_FALSE(*a_->Find(of_b.id));
  const auto as_a = Connect(url_a_);
  EXPECT_EQ(Ask(*as_a, "e", "SELECT count(*) FROM event WHERE grp <> 'a'"), 0);
  EXPECT_EQ(Ask(*as_a, "o", "SELECT count(*) FROM operation WHERE grp <> 'a'"), 0);
  EXPECT_EQ(Ask(*as_a, "f", "SELECT count(*) FROM flow"), 1);
  EXPECT_EQ(Ask(*as_a, "i", "SELECT count(*) FROM intent WHERE grp <> 'a'"), 0);
  EXPECT_EQ(Ask(*as_a, "s",
                "WITH u AS (UPDATE stream SET state = 2 WHERE grp = 'b' RETURNING 1)"
                " SELECT count(*) FROM u"),
            0);
  EXPECT_EQ(Ask(*as_a, "u",
                "WITH u AS (UPDATE operation SET phase = 3 WHERE grp = 'b' RETURNING 1)"
                " SELECT count(*) FROM u"),
            0);
  for (const char* const forbidden :
       {"INSERT INTO stream (stream, grp, pod, version, chain) VALUES (99, 'b', '', '', '')",
        "UPDATE stream SET grp = 'b'", "DELETE FROM event", "UPDATE event SET won = false",
        "SELECT 1 FROM event_rest", "DELETE FROM operation", "DROP TABLE work",
        "CREATE TABLE mine (x int)", "ALTER TABLE event DISABLE ROW LEVEL SECURITY"}) {
    EXPECT_FALSE(as_a->Execute(forbidden)) << forbidden;
  }
  EXPECT_FALSE(*b_->Find(of_a.id));
  EXPECT_TRUE(*b_->Find(of_b.id));
}

TEST_F(GrantsTest, AReaderVerifiesAllAndChangesNothing) {
  Finish(*a_, "a", "trace-a");
  Finish(*b_, "b", "trace-b");
  PgReader reader{PgOptions{.url = UrlAs(url_, "reader")}};
  const auto streams = ListPgStreams(reader);
  ASSERT_TRUE(streams) << streams.error();
  ASSERT_EQ(streams->size(), 2U);
  for (const PgStream& stream : *streams) {
    EXPECT_TRUE(VerifyPgStream(reader, nullptr, stream).ok);
  }
  EXPECT_EQ(*CheckPgTables(reader), "");
  const auto gaps = PgStreamGaps(reader);
  ASSERT_TRUE(gaps) << gaps.error();
  EXPECT_TRUE(gaps->empty());
  const auto as_reader = Connect(UrlAs(url_, "reader"));
  EXPECT_FALSE(as_reader->Execute("UPDATE ledger SET accepted_why = 'x'"));
  EXPECT_FALSE(as_reader->Execute("DELETE FROM work"));
  EXPECT_FALSE(as_reader->Execute("SELECT nextval('place')"));
}

// Who sees the streams of one group cannot tell which numbers nobody has.
TEST_F(GrantsTest, AReaderOfOneGroupIsToldOfNoGaps) {
  Finish(*a_, "a", "trace-a");
  Finish(*b_, "b", "trace-b");
  const auto owner = Connect(url_);
  const auto given = GrantPg(*owner, {PgTask::kReader, "reader", "b"});
  ASSERT_TRUE(given) << given.error().why;
  PgReader reader{PgOptions{.url = UrlAs(url_, "reader")}};
  const auto streams = ListPgStreams(reader);
  ASSERT_TRUE(streams) << streams.error();
  ASSERT_EQ(streams->size(), 1U);
  EXPECT_TRUE(VerifyPgStream(reader, nullptr, streams->front()).ok);
  EXPECT_EQ(*CheckPgTables(reader), "");
  const auto gaps = PgStreamGaps(reader);
  ASSERT_TRUE(gaps) << gaps.error();
  EXPECT_TRUE(gaps->empty());
  ASSERT_TRUE(owner->Execute("SELECT nextval('stream_number')"));
  EXPECT_TRUE(PgStreamGaps(reader)->empty());
  ASSERT_TRUE(GrantPg(*owner, {PgTask::kReader, "reader", ""}));
  PgReader of_all{PgOptions{.url = UrlAs(url_, "reader")}};
  EXPECT_EQ(PgStreamGaps(of_all)->size(), 1U);
}

TEST_F(GrantsTest, OnlyAKeeperLetsOldRowsLeave) {
  Finish(*a_, "a", "trace-a");
  Finish(*b_, "b", "trace-b");
  ASSERT_TRUE(
      Connect(url_)->Execute("UPDATE event SET at = at - interval '1 day';"
                             "UPDATE operation SET wall_ms = wall_ms - 86400000;"
                             "DELETE FROM flow"));
  Finish(*a_, "later", "trace-c");
  Finish(*b_, "later-b", "trace-d");
  const LedgerRule rule{.retention = Millis(1'000), .tombstones = Millis(1'000'000)};
  PgKeeper pod({.connection = {.url = url_a_}, .group = "a", .keys = {}, .clock = clock_});
  const auto not_done = pod.Turn(rule, Millis(0));
  ASSERT_TRUE(not_done) << not_done.error();
  EXPECT_EQ(not_done->rows, 0U);
  PgKeeper keeper(
      {.connection = {.url = UrlAs(url_, "keeper_a")}, .group = "a", .keys = {}, .clock = clock_});
  const auto done = keeper.Turn(rule, Millis(0));
  ASSERT_TRUE(done) << done.error();
  EXPECT_GT(done->rows, 0U);
  const auto owner = Connect(url_);
  EXPECT_EQ(Ask(*owner, "b", "SELECT count(*) FROM stream WHERE base > 0 AND grp = 'b'"), 0);
  EXPECT_EQ(Ask(*owner, "a", "SELECT count(*) FROM stream WHERE base > 0 AND grp = 'a'"), 1);
}

// As versions before the sixth of the tables said it.
TEST_F(GrantsTest, AMigrationLetsNoPlanTakeTheGroupForAKey) {
  const auto owner = Connect(url_);
  const char* const by_group = "SELECT count(*) FROM pg_policies WHERE qual LIKE '(grp = %'";
  EXPECT_EQ(Ask(*owner, "before", by_group), 0);
  for (const char* const table : {"operation", "flow"}) {
    ASSERT_TRUE(owner->Execute(std::string("ALTER POLICY pod_a ON ") + table +
                               " USING (grp = 'a''s') WITH CHECK (grp = 'a''s')"));
  }
  EXPECT_EQ(Ask(*owner, "made", by_group), 2);
  ASSERT_TRUE(owner->Execute("UPDATE ledger SET schema_version = 5"));
  const auto migrated = MigratePgSchema(*owner);
  EXPECT_TRUE(migrated) << migrated.error().why;
  EXPECT_EQ(Ask(*owner, "after", by_group), 0);
  EXPECT_EQ(Ask(*owner, "words",
                "SELECT count(*) FROM pg_policies WHERE policyname = 'pod_a' AND qual = with_check"
                " AND strpos(qual, '(grp || ') = 2 AND strpos(qual, 'a''''s') > 0"),
            2);
}

TEST_F(GrantsTest, AMigrationOwnsTheTablesAndRightsAreTakenBack) {
  const auto owner = Connect(url_);
  ASSERT_TRUE(
      owner->Execute("DO $$ BEGIN CREATE ROLE migration LOGIN; EXCEPTION WHEN"
                     " duplicate_object THEN NULL; END $$"));
  ASSERT_TRUE(GrantPg(*owner, {PgTask::kMigration, "migration", ""}));
  const auto migrated = MigratePgSchema(*Connect(UrlAs(url_, "migration")));
  EXPECT_TRUE(migrated) << migrated.error().why;
  // What it makes anew is not seen by who may not.
  Finish(*a_, "a", "trace-a");
  ASSERT_TRUE(GrantPg(*owner, {PgTask::kReader, "pod_a", "a"}));
  EXPECT_FALSE(Connect(url_a_)->Execute("UPDATE stream SET beat = beat"));
}

}  // namespace
}  // namespace recourse::postgres_grants_test
