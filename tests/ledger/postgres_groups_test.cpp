// Groups of one database share nothing, also where their keys are the same; and tables of an
// earlier version, whose rows did not say whose they are.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/ledger/postgres/open.h"
#include "filters/ledger/postgres/schema.h"
#include "filters/ledger/postgres/upkeep/audit.h"
#include "filters/ledger/postgres/upkeep/keeper.h"
#include "filters/ledger/postgres/upkeep/table_check.h"
#include "filters/ledger/queries/operation_queries.h"
#include "filters/ledger/shared_view.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/ledger/postgres_server.h"

namespace recourse::postgres_groups_test {
namespace {

using Kind = Begun::Kind;
const Digest kPolicy = DigestOf("the policy");

class GroupsTest : public testing::Test {
 protected:
  std::unique_ptr<Ledger> Open(const std::string& group) {
    auto opened = TryOpen(group);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().why);
    return opened ? std::move(*opened) : nullptr;
  }
  std::expected<std::unique_ptr<Ledger>, Unopened> TryOpen(const std::string& group) {
    return OpenPostgresLedger({.store = {.connection = {.url = url_},
                                         .group = group,
                                         .pod = "pod-" + group,
                                         .version = "test",
                                         .install_id = "install-1"},
                               .wait = std::chrono::minutes(1)},
                              clock_);
  }
  Begun Begin(Ledger& ledger, NewOperation call) {
    auto begun = Await(ledger.Begin(std::move(call), executor_), executor_);
    EXPECT_TRUE(begun) << (begun ? "" : begun.error().detail());
    if (begun && begun->commit) EXPECT_TRUE(Await(begun->commit->Durable(), executor_));
    return begun ? std::move(*begun) : Begun();
  }
  Event Finish(Ledger& ledger, NewOperation call, std::string body = "{}") {
    const Begun begun = Begin(ledger, std::move(call));
    EXPECT_EQ(begun.kind, Kind::kFresh);
    auto done = Await(ledger.Record(Success(begun.event, std::move(body)), executor_), executor_);
    EXPECT_TRUE(done) << (done ? "" : done.error().detail());
    return done ? std::move(*done) : Event();
  }
  static NewOperation Step(std::string_view key) {
    NewOperation call = Call(key);
    call.event.is_step = true;
    return call;
  }
  Result<FlowState> Break(Ledger& ledger) {
    return Await(ledger.MoveFlow({.caller = "agent-1",
                                  .flow = "trace-1",
                                  .from = FlowPhase::kOpen,
                                  .to = FlowPhase::kBreaking,
                                  .cause = FlowCause::kCanceled,
                                  .reason = "seen"},
                                 executor_),
                 executor_);
  }
  void Execute(const std::string& sql) const {
    const auto connection = PgConnection::Open({.url = url_});
    ASSERT_TRUE(connection) << connection.error().why;
    const auto done = (*connection)->Execute(sql);
    EXPECT_TRUE(done) << (done ? "" : done.error().text);
  }
  std::int64_t Count(const std::string& from) const {
    const auto connection = PgConnection::Open({.url = url_});
    const std::string sql = "SELECT count(*) FROM " + from;
    (*connection)->Queue({"counted", sql.c_str()});
    const auto rows = (*connection)->Run();
    EXPECT_TRUE(rows) << (rows ? "" : rows.error().text);
    return rows ? rows->front().Int(0, 0) : -1;
  }
  std::string Problem() const {
    PgReader reader(PgOptions{.url = url_});
    const auto streams = ListPgStreams(reader);
    for (const PgStream& stream : *streams) {
      const VerifyReport report = VerifyPgStream(reader, nullptr, stream);
      if (!report.ok) return report.problem;
    }
    return *CheckPgTables(reader);
  }
  static bool HasSharedSecret(Ledger& ledger) {
    return dynamic_cast<SharedLedgerView&>(ledger).HasSharedSecret();
  }

  SystemClock clock_;
  PumpedExecutor executor_;
  const std::string url_ = FreshPostgresLedger();
};

TEST_F(GroupsTest, TheSameKeyIsEachGroupsOwn) {
  const auto a = Open("a"), b = Open("b");
  const Event of_a = Finish(*a, Step("k"), "of a");
  EXPECT_EQ(Finish(*b, Step("k"), "of b").answer.body, "of b");
  for (Ledger* const ledger : {a.get(), b.get()}) {
    const Begun again = Begin(*ledger, Step("k"));
    EXPECT_EQ(again.kind, Kind::kReplay);
    EXPECT_EQ(again.event.answer.body, ledger == a.get() ? "of a" : "of b");
  }
  EXPECT_EQ(Count("operation"), 2);
  EXPECT_FALSE(HasSharedSecret(*a));
  EXPECT_EQ(Problem(), "");
}

TEST_F(GroupsTest, AnOpenCallOfAnotherGroupIsNotJoined) {
  const auto a = Open("a"), b = Open("b");
  const Begun open = Begin(*a, Step("k"));
  EXPECT_EQ(Begin(*a, Step("k")).kind, Kind::kRunning);
  const Begun theirs = Begin(*b, Step("k"));
  EXPECT_EQ(theirs.kind, Kind::kFresh);
  EXPECT_FALSE(Await(b->Read(open.event.operation, executor_), executor_));
  EXPECT_FALSE(Await(b->Record(Success(open.event), executor_), executor_));
  EXPECT_TRUE(Await(a->Record(Success(open.event), executor_), executor_));
  EXPECT_TRUE(Await(b->Record(Success(theirs.event), executor_), executor_));
}

TEST_F(GroupsTest, AFlowOfTheSameNameIsEachGroupsOwn) {
  const auto a = Open("a"), b = Open("b");
  Finish(*a, Step("one"));
  Finish(*b, Step("two"));
  const auto broken = Break(*a);
  ASSERT_TRUE(broken) << broken.error().detail();
  EXPECT_EQ(broken->steps.size(), 1U);
  EXPECT_EQ(Begin(*a, Step("three")).kind, Kind::kFlowClosed);
  Finish(*b, Step("three"));
  const auto open = Await(b->FindOpenFlow("agent-1", "trace-1", executor_), executor_);
  ASSERT_TRUE(open && *open);
  EXPECT_EQ((*open)->phase, FlowPhase::kOpen);
  EXPECT_EQ((*open)->steps.size(), 2U);
  EXPECT_FALSE(*b->FindFlow(broken->number));
  EXPECT_TRUE(*a->FindFlow(broken->number));
}

TEST_F(GroupsTest, NothingIsFoundOrDecidedByTheNumberOfAnotherGroup) {
  const auto a = Open("a"), b = Open("b");
  NewOperation asking = Step("asking");
  asking.event.request = RenderedRequest{"POST", "/orders", {}, "{}"};
  asking.approval = {
      .needed = 1, .by = {"team"}, .expires = Millis(600'000), .policy = kPolicy, .why = "always"};
  const Event asked = Begin(*a, std::move(asking)).event;
  const ApprovalOrder order{.operation = asked.operation,
                            .by = {"ann", {"team"}},
                            .digest = asked.approval->digest,
                            .policy = kPolicy};
  EXPECT_FALSE(Await(b->Decide(order, executor_), executor_));
  EXPECT_FALSE(*b->Find(asked.id));
  EXPECT_TRUE(Await(b->Claims(0, 10, executor_), executor_)->empty());
  EXPECT_TRUE(b->List({.operation = asked.operation})->events.empty());
  const auto done = Await(a->Decide(order, executor_), executor_);
  ASSERT_TRUE(done) << done.error().detail();
  EXPECT_EQ(done->kind, ApprovalRuling::Kind::kTaken);
}

TEST_F(GroupsTest, AKeeperLeavesWhatIsOfAnotherGroup) {
  auto a = Open("a"), b = Open("b");
  for (Ledger* const ledger : {a.get(), b.get()}) Finish(*ledger, Call("k"));
  Execute(
      "UPDATE event SET at = at - interval '1 day'; UPDATE flow SET at = at - interval '1 day';"
      "UPDATE operation SET wall_ms = wall_ms - 86400000, at = at - interval '1 day'");
  for (Ledger* const ledger : {a.get(), b.get()}) Finish(*ledger, Call("young"));
  PgKeeper keeper({.connection = {.url = url_}, .group = "a", .keys = {}, .clock = clock_});
  const LedgerRule rule{.retention = Millis(1'000), .tombstones = Millis(10'000)};
  ASSERT_GT(keeper.Turn(rule, Millis(0))->rows, 0U);
  EXPECT_EQ(Begin(*a, Call("k")).kind, Kind::kExpired);
  EXPECT_EQ(Begin(*b, Call("k")).kind, Kind::kReplay);
  Execute("UPDATE operation SET flags = 4, at = at - interval '1 day'");
  const std::int64_t theirs = Count("operation WHERE grp = 'b'");
  EXPECT_GT(keeper.Turn(rule, Millis(0))->tombstones, 0U);
  EXPECT_EQ(Count("operation WHERE grp = 'b'"), theirs);
  EXPECT_EQ(Count("operation WHERE grp = 'a' AND flags & 4 > 0"), 0);
}

// Its tables as they were, with what is in them.
class OlderTablesTest : public GroupsTest {
 protected:
  void MakeOlder() const {
    Execute(
        "DROP TABLE secret;"
        "ALTER TABLE operation DROP CONSTRAINT operation_pkey, ADD PRIMARY KEY (key);"
        "ALTER TABLE intent DROP CONSTRAINT intent_pkey, ADD PRIMARY KEY (intent);"
        "ALTER TABLE flow DROP CONSTRAINT flow_pkey, ADD PRIMARY KEY (flow);"
        "ALTER TABLE work DROP CONSTRAINT work_pkey, ADD PRIMARY KEY (kind, stream, number);"
        "ALTER TABLE stream DROP COLUMN tables;"
        "DROP INDEX event_of_group; CREATE INDEX event_place ON event (place);"
        "UPDATE operation SET grp = ''; UPDATE intent SET grp = '';"
        "UPDATE ledger SET schema_version = 3, min_writer = 1");
  }
  void Migrate() const {
    const auto connection = PgConnection::Open({.url = url_});
    for (int again = 0; again < 2; ++again) {
      const auto migrated = MigratePgSchema(**connection);
      ASSERT_TRUE(migrated) << migrated.error().why;
    }
  }
};

TEST_F(OlderTablesTest, RowsGetTheirGroupAndKeysGoOnAsTheyWere) {
  auto a = Open("a"), b = Open("b");
  const Event of_a = Finish(*a, Step("of-a"), "a");
  NewOperation theirs = Call("of-b", "trace-2");
  theirs.event.is_step = true;
  const Event of_b = Finish(*b, std::move(theirs), "b");
  a.reset();
  b.reset();
  MakeOlder();
  EXPECT_FALSE(TryOpen("a")) << "not before it is brought up";
  Migrate();
  EXPECT_EQ(Count("operation WHERE grp = ''") + Count("intent WHERE grp = ''"), 0);
  EXPECT_EQ(Count("pg_inherits i JOIN pg_index x ON x.indexrelid = i.inhrelid AND x.indisvalid"
                  " WHERE i.inhparent = 'event_of_group'::regclass"),
            1)
      << "of the rows that are there";
  EXPECT_EQ(Count("pg_class WHERE relname = 'event_place'"), 0);
  a = Open("a");
  EXPECT_TRUE(HasSharedSecret(*a)) << "its keys were made with it";
  EXPECT_EQ(Begin(*a, Step("of-a")).event.answer.body, "a");
  EXPECT_TRUE(*a->Find(of_a.id));
  EXPECT_TRUE(Await(a->Read(of_a.operation, executor_), executor_));
  EXPECT_FALSE(Await(a->Read(of_b.operation, executor_), executor_));
  EXPECT_EQ(Begin(*a, Step("of-b")).kind, Kind::kFresh);
  EXPECT_FALSE(HasSharedSecret(*Open("new")));
  EXPECT_EQ(Problem(), "");
}

TEST_F(OlderTablesTest, AProcessThatKnowsNoGroupsEndsAndBeginsNothing) {
  const auto old = Open("a");
  const Begun open = Begin(*old, Step("open"));
  MakeOlder();
  Migrate();
  EXPECT_EQ(Count("stream WHERE state = 1"), 0) << "it is taken over";
  const auto connection = PgConnection::Open({.url = url_});
  EXPECT_FALSE((*connection)
                   ->Execute("INSERT INTO stream (stream, grp, pod, version, chain) VALUES (77, "
                             "'a', '', '', '')"));
  EXPECT_EQ(Count("ledger WHERE min_writer = 4"), 1);
}

TEST_F(OlderTablesTest, WhoseStreamIsNotKnownIsOfTheOnlyGroup) {
  auto a = Open("a");
  Finish(*a, Step("k"), "a");
  a.reset();
  MakeOlder();
  Execute("UPDATE operation SET last_stream = 9999, op_stream = 9999, flags = 4");
  Migrate();
  EXPECT_EQ(Count("operation WHERE grp = 'a'"), 1);
}

TEST_F(OlderTablesTest, RolesThatHadRightsHaveThemOfTheNewTable) {
  Open("a").reset();
  Execute(
      "DO $$ BEGIN CREATE ROLE older_pod LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
      "GRANT SELECT, INSERT ON moved TO older_pod; ALTER TABLE moved ENABLE ROW LEVEL SECURITY;"
      "CREATE POLICY older_pod ON moved TO older_pod USING (grp = 'a') WITH CHECK (grp = 'a')");
  MakeOlder();
  Migrate();
  Execute("INSERT INTO secret VALUES ('b', true)");
  Execute(
      "DO $$ DECLARE s text := current_schema(); BEGIN"
      " EXECUTE format('GRANT USAGE ON SCHEMA %I TO older_pod', s); END $$");
  std::string url = url_;
  url.replace(url.find("user=recourse"), std::string("user=recourse").size(), "user=older_pod");
  const auto as_pod = PgConnection::Open({.url = url});
  ASSERT_TRUE(as_pod) << as_pod.error().why;
  (*as_pod)->Queue({"seen", "SELECT count(*) FROM secret"});
  const auto seen = (*as_pod)->Run();
  ASSERT_TRUE(seen) << seen.error().text;
  EXPECT_EQ(seen->front().Int(0, 0), 1);
}

}  // namespace
}  // namespace recourse::postgres_groups_test
