// A ledger in PostgreSQL that is looked at beside its verbs.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/upkeep/audit.h"
#include "filters/ledger/postgres/upkeep/keeper.h"
#include "filters/ledger/postgres/upkeep/table_check.h"
#include "filters/ledger/shared_view.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/ledger/postgres_server.h"

namespace recourse {

class PostgresUpkeepTest : public testing::Test {
 protected:
  Result<Begun> TryBegin(Ledger& ledger, NewOperation call) {
    return Await(ledger.Begin(std::move(call), executor_), executor_);
  }
  Event Dispatch(Ledger& ledger, NewOperation call) {
    auto begun = TryBegin(ledger, std::move(call));
    EXPECT_TRUE(begun && begun->commit && Await(begun->commit->Durable(), executor_))
        << (begun ? "" : begun.error().detail());
    return begun ? std::move(begun->event) : Event();
  }
  Event Record(Ledger& ledger, Transition transition) {
    auto event = Await(ledger.Record(std::move(transition), executor_), executor_);
    EXPECT_TRUE(event) << (event ? "" : event.error().detail());
    return event ? std::move(*event) : Event();
  }
  Event Finish(Ledger& ledger, std::string_view key) {
    return Record(ledger, Success(Dispatch(ledger, Call(key)), "answer"));
  }
  void Execute(const std::string& sql) const {
    auto connection = PgConnection::Open({.url = url_});
    ASSERT_TRUE(connection);
    const auto done = (*connection)->Execute(sql);
    EXPECT_TRUE(done) << (done ? "" : done.error().text);
  }
  std::int64_t Ask(const std::string& sql) const {
    auto connection = PgConnection::Open({.url = url_});
    EXPECT_TRUE(connection);
    const std::string text = "SELECT coalesce((" + sql + "), 0)::bigint";
    (*connection)->Queue(PgStatement{"ask", text.c_str()});
    const auto rows = (*connection)->Run();
    EXPECT_TRUE(rows) << (rows ? "" : rows.error().text);
    return rows ? rows->front().Int(0, 0) : 0;
  }
  static std::string Is(std::uint64_t row) {
    const RowId id = UnpackRowId(row);
    return " WHERE stream = " + std::to_string(id.stream) +
           " AND number = " + std::to_string(id.number);
  }
  // What is wrong first; empty: nothing.
  std::string Problem() {
    const auto streams = ListPgStreams(reader_);
    EXPECT_TRUE(streams) << streams.error();
    for (const PgStream& stream : *streams) {
      const VerifyReport report = VerifyPgStream(reader_, keys_, stream);
      if (!report.ok) return report.problem;
    }
    const auto problem = CheckPgTables(reader_);
    EXPECT_TRUE(problem) << problem.error();
    return *problem;
  }
  static std::string Row(const Event& event) { return "row " + PrintRowId(event.id); }

  ManualClock clock_;
  PumpedExecutor executor_;
  const std::string url_ = FreshPostgresLedger();
  SharedKeys keys_;
  PgReader reader_{PgOptions{.url = url_}};
  const std::unique_ptr<Ledger> one_ = OpenTestPostgres(url_, clock_);
  const std::unique_ptr<Ledger> other_ = OpenTestPostgres(url_, clock_);
};

// What becomes of it with time: rows are dated by the database's clock, and made older by a
// statement.
class PostgresRetentionTest : public PostgresUpkeepTest {
 protected:
  static constexpr LedgerRule kRule{.retention = Millis(1'000'000),
                                    .tombstones = Millis(2'000'000)};

  void Age(std::int64_t ms) const {
    const std::string by = std::to_string(ms);
    const std::string at = "at = at - " + by + " * interval '1 ms'";
    Execute("UPDATE event SET " + at + "; UPDATE operation SET wall_ms = wall_ms - " + by + ", " +
            at + "; UPDATE flow SET " + at);
  }
  PgKeeper::Done Turn(const LedgerRule& rule = kRule) {
    const auto done = keeper_.Turn(rule, Millis(0));
    EXPECT_TRUE(done) << (done ? "" : done.error());
    return done ? *done : PgKeeper::Done();
  }

  SystemClock clock_;
  PgKeeper keeper_{
      {.connection = {.url = url_}, .group = "shop/checkout", .keys = {}, .clock = clock_}};
  const std::unique_ptr<Ledger> one_ = OpenTimedPostgres(url_, clock_);
  const std::unique_ptr<Ledger> other_ = OpenTimedPostgres(url_, clock_);
};

}  // namespace recourse
