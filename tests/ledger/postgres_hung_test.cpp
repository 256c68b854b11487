// A server that has a batch before it and hangs, though others of its sessions go on.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "filters/ledger/shared_view.h"
#include "tests/ledger/postgres_relay.h"
#include "tests/ledger/postgres_upkeep_fixture.h"

namespace recourse::postgres_hung_test {
namespace {

using Kind = Begun::Kind;

class HungTest : public PostgresUpkeepTest {
 protected:
  bool Waits(int sessions) const {
    return HappensSoon([&] {
      return Ask("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                 " AND wait_event_type = 'Lock'") == sessions;
    });
  }
};

// Who finds that it is not there makes sure that it never will be, before it is written again.
TEST_F(HungTest, ABatchThatWasFoundMissingDoesNotHappenLater) {
  const Event first = Dispatch(*one_, Call("first"));
  const std::string stream = std::to_string(UnpackRowId(first.id).stream);
  const auto session = static_cast<pid_t>(
      Ask("SELECT max(pid) FROM pg_stat_activity WHERE datname = current_database()"
          " AND query LIKE 'INSERT INTO event (stream, number, day, place, won, kind, grp, at, "
          "tool%'"));
  ASSERT_GT(session, 0);
  auto holder = PgConnection::Open({.url = url_, .answer_within = Millis(60'000)});
  ASSERT_TRUE(holder);
  ASSERT_EQ(kill(session, SIGSTOP), 0);
  ASSERT_TRUE(
      (*holder)->Execute("BEGIN; SELECT FROM stream WHERE stream = " + stream + " FOR UPDATE"));
  Started<Result<Begun>> begins(one_->Begin(Call("second"), executor_));
  EXPECT_TRUE(Waits(1)) << "who looks what has become of it";
  ASSERT_EQ(kill(session, SIGCONT), 0);
  EXPECT_TRUE(Waits(2)) << "the batch itself";
  ASSERT_TRUE((*holder)->Execute("COMMIT"));
  const auto begun = begins.Get(executor_);
  ASSERT_TRUE(begun) << begun.error().detail();
  EXPECT_EQ(begun->kind, Kind::kFresh);
  EXPECT_TRUE(Await(begun->commit->Durable(), executor_));
  EXPECT_EQ(Ask("SELECT count(*) FROM ledger WHERE restored_at IS NOT NULL"), 0);
  EXPECT_EQ(Ask("SELECT count(*) FROM stream WHERE held"), 0);
  EXPECT_EQ(UnpackRowId(begun->event.id).stream, UnpackRowId(first.id).stream);
  EXPECT_EQ(Problem(), "");
}

}  // namespace
}  // namespace recourse::postgres_hung_test
