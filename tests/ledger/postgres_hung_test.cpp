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
  static std::string StreamOf(const Event& event) {
    return std::to_string(UnpackRowId(event.id).stream);
  }
  // What comes next has reached the session of `one_`, and goes no further; its row is held.
  void Hang(const std::string& stream) {
    session_ = static_cast<pid_t>(
        Ask("SELECT max(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND query LIKE 'INSERT INTO event (stream, number, day, place, won, kind, grp, at, "
            "tool%'"));
    ASSERT_GT(session_, 0);
    auto opened = PgConnection::Open({.url = url_, .answer_within = Millis(60'000)});
    ASSERT_TRUE(opened);
    holder_ = std::move(*opened);
    ASSERT_EQ(kill(session_, SIGSTOP), 0);
    ASSERT_TRUE(
        holder_->Execute("BEGIN; SELECT FROM stream WHERE stream = " + stream + " FOR UPDATE"));
  }
  void GoOn() {
    EXPECT_TRUE(Waits(1)) << "who looks what has become of it";
    ASSERT_EQ(kill(session_, SIGCONT), 0);
    EXPECT_TRUE(Waits(2)) << "the batch itself";
  }

  pid_t session_ = 0;
  std::unique_ptr<PgConnection> holder_;
};

// Who finds that it is not there makes sure that it never will be, before it is written again.
TEST_F(HungTest, ABatchThatWasFoundMissingDoesNotHappenLater) {
  const Event first = Dispatch(*one_, Call("first"));
  Hang(StreamOf(first));
  Started<Result<Begun>> begins(one_->Begin(Call("second"), executor_));
  GoOn();
  ASSERT_TRUE(holder_->Execute("COMMIT"));
  const auto begun = begins.Get(executor_);
  ASSERT_TRUE(begun) << begun.error().detail();
  EXPECT_EQ(begun->kind, Kind::kFresh);
  EXPECT_TRUE(Await(begun->commit->Durable(), executor_));
  EXPECT_EQ(Ask("SELECT count(*) FROM ledger WHERE restored_at IS NOT NULL"), 0);
  EXPECT_EQ(Ask("SELECT count(*) FROM stream WHERE held"), 0);
  EXPECT_EQ(StreamOf(begun->event), StreamOf(first));
  EXPECT_EQ(Problem(), "");
}

// Whoever was taken for dead looks what has become of its batch, once it comes back.
TEST_F(HungTest, AStreamThatIsOverLivesNoLongerForThat) {
  const std::string stream = StreamOf(Dispatch(*one_, Call("first")));
  const std::string lived =
      "SELECT extract(epoch FROM at) * 1000000 FROM stream WHERE stream = " + stream;
  Hang(stream);
  Started<Result<Begun>> begins(one_->Begin(Call("second"), executor_));
  GoOn();
  const std::int64_t until = Ask(lived);
  ASSERT_TRUE(
      holder_->Execute("UPDATE stream SET state = 3 WHERE stream = " + stream + "; COMMIT"));
  const auto begun = begins.Get(executor_);
  ASSERT_TRUE(begun) << begun.error().detail();
  EXPECT_NE(StreamOf(begun->event), stream);
  EXPECT_EQ(Ask(lived), until);
}

}  // namespace
}  // namespace recourse::postgres_hung_test
