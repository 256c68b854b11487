// Processes over one ledger in PostgreSQL of which one is lost: what it was doing goes on in
// another, and what it may still do.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/connection.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/ledger/postgres_server.h"

namespace recourse::stream_take_over_test {
namespace {

class StreamTakeOverTest : public testing::Test {
 protected:
  std::unique_ptr<Ledger> Open() {
    auto opened = OpenTimedPostgres(url_, clock_);
    if (opened) opened->OnTakeOver([this] { ++took_; });
    return opened;
  }
  Result<Begun> Begin(Ledger& ledger, NewOperation call) {
    return Await(ledger.Begin(std::move(call), executor_), executor_);
  }
  Begun Dispatch(Ledger& ledger, NewOperation call) {
    auto begun = Begin(ledger, std::move(call));
    EXPECT_TRUE(begun && begun->commit && Await(begun->commit->Durable(), executor_));
    return begun ? std::move(*begun) : Begun();
  }
  Result<Event> Read(Ledger& ledger, std::uint64_t operation) {
    return Await(ledger.Read(operation, executor_), executor_);
  }
  std::int64_t Number(const std::string& what) const {
    const std::string sql = "SELECT " + what;
    const PgStatement statement{"test_number", sql.c_str()};
    auto connection = PgConnection::Open({.url = url_});
    EXPECT_TRUE(connection);
    (*connection)->Queue(statement);
    const auto rows = (*connection)->Run();
    EXPECT_TRUE(rows) << (rows ? "" : rows.error().text);
    return rows && rows->front().size() == 1 ? rows->front().Int(0, 0) : -1;
  }
  // Of that stream.
  std::int64_t Of(std::uint64_t stream, const std::string& column) const {
    return Number(column + "::bigint FROM stream WHERE stream = " + std::to_string(stream));
  }
  void Declare(std::uint64_t stream) const {
    auto connection = PgConnection::Open({.url = url_});
    const auto done =
        (*connection)
            ->Execute("UPDATE stream SET state = 2 WHERE stream = " + std::to_string(stream));
    EXPECT_TRUE(done);
  }
  // A process that has begun "k", and does `then`; with `tells` it records its answer after that.
  struct Child {
    pid_t pid = -1;
    Event sent;
  };
  Child Start(const std::function<void(const Begun&)>& then, bool tells = false,
              const NewOperation& call = Call("k")) {
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    Child child;
    child.pid = ::fork();
    if (child.pid == 0) {
      const auto ledger = Open();
      const Begun begun = Dispatch(*ledger, NewOperation(call));
      const std::uint64_t ids[] = {begun.event.id, begun.event.operation};
      (void)!::write(pipe[1], ids, sizeof ids);
      then(begun);
      const bool is_told =
          !tells || Await(ledger->Record(Success(begun.event), executor_), executor_).has_value();
      ::_exit(is_told ? 0 : 1);
    }
    std::uint64_t ids[2] = {};
    EXPECT_EQ(::read(pipe[0], ids, sizeof ids), static_cast<ssize_t>(sizeof ids));
    ::close(pipe[0]);
    ::close(pipe[1]);
    child.sent.id = ids[0];
    child.sent.operation = ids[1];
    return child;
  }
  // The signal that ended it, or its exit code.
  static int EndOf(const Child& child) {
    int status = 0;
    do {
      EXPECT_EQ(::waitpid(child.pid, &status, 0), child.pid);
    } while (!WIFEXITED(status) && !WIFSIGNALED(status));
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }
  // Asks again and again, for a minute at most.
  static bool Becomes(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < end) {
      if (holds()) return true;
    }
    return false;
  }
  static std::uint64_t StreamOf(const Event& event) { return UnpackRowId(event.id).stream; }

  const SystemClock clock_{};
  PumpedExecutor executor_;
  std::atomic<int> took_ = 0;
  const std::string url_ = FreshPostgresLedger();
};

TEST_F(StreamTakeOverTest, WhatADeadProcessWasSendingIsUnknownAndTheOthersWork) {
  const Child lost = Start([](const Begun&) { ::raise(SIGKILL); });
  const Event& sent = lost.sent;
  EXPECT_EQ(EndOf(lost), SIGKILL);
  const auto other = Open();
  ASSERT_TRUE(Becomes([&] { return Of(StreamOf(sent), "state") == 3; }));
  const auto now = Read(*other, sent.operation);
  ASSERT_TRUE(now);
  EXPECT_EQ(now->phase, Phase::kUncertain);
  EXPECT_EQ(now->cause, Cause::kOwnerLost);
  EXPECT_EQ(now->attempt, 1);
  EXPECT_EQ(Number("owner FROM work WHERE kind = 1"), static_cast<std::int64_t>(StreamOf(*now)));
  const auto open = Await(other->Open(0, 10, executor_), executor_);
  ASSERT_TRUE(open && open->size() == 1);
  EXPECT_EQ(open->front().operation, sent.operation);
  EXPECT_TRUE(Becomes([&] { return took_ == 1; }));
  EXPECT_TRUE(Becomes([&] { return Of(StreamOf(*now), "open") == 1; })) << "it is watched for it";
  const VerifyReport report = other->Verify();
  EXPECT_TRUE(report.ok) << report.problem;
}

// It would never settle or undo that, and keep it from those who do.
TEST_F(StreamTakeOverTest, WhoObservesTakesOverWhatWasObservedAlone) {
  NewOperation seen = Call("observed");
  seen.event.verdict = ObserveVerdict::kFresh;
  const Child observed = Start([](const Begun&) { ::raise(SIGKILL); }, false, seen);
  const Child sent = Start([](const Begun&) { ::raise(SIGKILL); });
  for (const Child& child : {observed, sent}) {
    EXPECT_EQ(EndOf(child), SIGKILL);
    Declare(StreamOf(child.sent));
  }
  const auto observer = OpenTimedPostgres(url_, clock_, true);
  ASSERT_TRUE(Becomes([&] { return Of(StreamOf(observed.sent), "state") == 3; }));
  EXPECT_EQ(Of(StreamOf(sent.sent), "state"), 2);
  EXPECT_EQ(Number("count(*) FROM work WHERE kind = 1 AND owner = " +
                   std::to_string(UnpackRowId(observer->Stats().first_id).stream)),
            0);
  const auto other = Open();
  ASSERT_TRUE(Becomes([&] { return Of(StreamOf(sent.sent), "state") == 3; }));
  EXPECT_EQ(Number("owner FROM work WHERE kind = 1 AND (stream, number) = (" +
                   std::to_string(StreamOf(sent.sent)) + ", " +
                   std::to_string(UnpackRowId(sent.sent.operation).number) + ")"),
            static_cast<std::int64_t>(UnpackRowId(other->Stats().first_id).stream));
}

TEST_F(StreamTakeOverTest, OneThatIsStoppedTellsWhatItKnowsOnceItGoesOn) {
  const Child stopped = Start([](const Begun&) { ::raise(SIGSTOP); }, true);
  int status = 0;
  ASSERT_EQ(::waitpid(stopped.pid, &status, WUNTRACED), stopped.pid);
  ASSERT_TRUE(WIFSTOPPED(status));
  const auto other = Open();
  ASSERT_TRUE(Becomes([&] { return Of(StreamOf(stopped.sent), "state") == 3; }));
  EXPECT_EQ(Read(*other, stopped.sent.operation)->phase, Phase::kUncertain);
  ::kill(stopped.pid, SIGCONT);
  EXPECT_EQ(EndOf(stopped), 0);
  EXPECT_EQ(Read(*other, stopped.sent.operation)->phase, Phase::kSucceeded);
}

TEST_F(StreamTakeOverTest, OneThatIsStoppedBetweenTheQuestionAndTheSendIsEndedByItsWatchdog) {
  const Child stopped = Start([](const Begun& begun) {
    if (begun.commit->permit()->Enter()) ::raise(SIGSTOP);
  });
  EXPECT_EQ(EndOf(stopped), SIGKILL);
}

TEST_F(StreamTakeOverTest, OneThatEndsHandsOverWhatItHas) {
  const auto other = Open();
  auto one = Open();
  const Event sent = Dispatch(*one, Call("k")).event;
  one.reset();
  ASSERT_TRUE(Becomes([&] { return Of(StreamOf(sent), "state") == 3; }));
  EXPECT_EQ(Read(*other, sent.operation)->cause, Cause::kOwnerLost);
}

TEST_F(StreamTakeOverTest, OneThatEndsWithNothingOpenLeavesNothingToTakeOver) {
  auto one = Open();
  const Event sent = Dispatch(*one, Call("k")).event;
  ASSERT_TRUE(Await(one->Record(Success(sent), executor_), executor_));
  one.reset();
  EXPECT_EQ(Of(StreamOf(sent), "state"), 3);
}

TEST_F(StreamTakeOverTest, OneThatHasSomethingOpenTellsThatItLivesUntilItHasNot) {
  const auto ledger = Open();
  const Event sent = Dispatch(*ledger, Call("k")).event;
  const std::uint64_t stream = StreamOf(sent);
  EXPECT_EQ(Of(stream, "open"), 1);
  const std::int64_t beat = Of(stream, "beat");
  ASSERT_TRUE(Becomes([&] { return Of(stream, "beat") >= beat + 2; }));
  ASSERT_TRUE(Await(ledger->Record(Success(sent), executor_), executor_));
  EXPECT_EQ(Of(stream, "open"), 0);
}

TEST_F(StreamTakeOverTest, OneThatWasTakenForDeadSendsNothingAndTellsWhatItKnows) {
  const auto one = Open();
  const auto other = Open();
  const Begun begun = Dispatch(*one, Call("k"));
  SendPermit* const permit = begun.commit->permit();
  ASSERT_NE(permit, nullptr);
  ASSERT_TRUE(permit->Enter());
  permit->Leave();
  Declare(StreamOf(begun.event));
  ASSERT_TRUE(Becomes([&] { return Of(StreamOf(begun.event), "state") == 3; }));
  ASSERT_TRUE(Becomes([&] {
    const bool may = permit->Enter();
    if (may) permit->Leave();
    return !may;
  }));
  const auto told = Await(one->Record(Success(begun.event), executor_), executor_);
  ASSERT_TRUE(told) << told.error().detail();
  EXPECT_EQ(told->phase, Phase::kSucceeded);
  EXPECT_NE(StreamOf(*told), StreamOf(begun.event));
  EXPECT_EQ(Number("count(*) FROM work"), 0);
  const auto repeat = Begin(*other, Call("k"));
  ASSERT_TRUE(repeat);
  EXPECT_EQ(repeat->kind, Begun::Kind::kReplay);
}

TEST_F(StreamTakeOverTest, OneThatWasTakenForDeadBeginsNothingUnderItsOldStream) {
  const auto one = Open();
  const std::uint64_t stream = StreamOf(Dispatch(*one, Call("k")).event);
  Declare(stream);
  const Begun begun = Dispatch(*one, Call("n"));
  EXPECT_NE(StreamOf(begun.event), stream);
  EXPECT_TRUE(begun.commit->permit()->Enter());
  begun.commit->permit()->Leave();
}

}  // namespace
}  // namespace recourse::stream_take_over_test
