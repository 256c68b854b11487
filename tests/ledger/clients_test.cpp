// Whose client waits, where several processes have to agree on that: what one tells, and what
// another one believes.
#include "filters/ledger/lease/clients.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "proxy/base/lease_limits.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/ledger/postgres_server.h"

namespace recourse::clients_test {
namespace {

using Says = ClientsElsewhere::Says;
using Kind = Begun::Kind;

constexpr Millis kLook = limits::kClientsLookedEvery;

class Link final : public ClientLink {
 public:
  bool HasLeft() const override { return has_left; }
  bool MayHaveLeft() const override { return has_left; }
  std::atomic<bool> has_left = false;
};

class ClientsElsewhereTest : public testing::Test {
 protected:
  Says Ask(std::uint64_t beat, Millis later = Millis(0)) {
    now_ += later;
    return elsewhere_.Ask(7, {.is_live = true, .beat = beat}, now_);
  }

  MonoTime now_{std::chrono::hours(1)};
  ClientsElsewhere elsewhere_;
};

TEST_F(ClientsElsewhereTest, TheSecondBatchAfterTheCallHasToldAndIsReadAnew) {
  EXPECT_EQ(Ask(1), Says::kLater);
  EXPECT_EQ(Ask(9, kLook), Says::kLater) << "that look may be older than the call";
  EXPECT_EQ(Ask(10, kLook), Says::kLater);
  EXPECT_EQ(Ask(11, kLook), Says::kLater) << "it may have been under way";
  EXPECT_EQ(Ask(12, kLook), Says::kNow) << "the operation was read before it";
  EXPECT_EQ(Ask(12), Says::kWaits);
}

TEST_F(ClientsElsewhereTest, WhoHasBeenTakenOverHasNoClients) {
  EXPECT_EQ(Ask(1), Says::kLater);
  EXPECT_EQ(elsewhere_.Ask(7, {}, now_), Says::kIsGone);
  EXPECT_EQ(elsewhere_.Ask(8, {}, now_), Says::kIsGone);
}

TEST_F(ClientsElsewhereTest, WhoLivesAndSaysNothingLeavesItUnsure) {
  EXPECT_EQ(Ask(1), Says::kLater);
  EXPECT_EQ(Ask(1, limits::kClientsToldMax - kLook), Says::kLater);
  EXPECT_EQ(Ask(2, kLook), Says::kUnsure);
}

TEST_F(ClientsElsewhereTest, EachProcessTellsForItself) {
  Ask(1);
  Ask(1, 2 * kLook);
  EXPECT_EQ(Ask(3), Says::kNow);
  EXPECT_EQ(elsewhere_.Ask(8, {.is_live = true, .beat = 3}, now_), Says::kLater);
}

class OwnClientsTest : public testing::Test {
 protected:
  static std::vector<std::uint64_t> Of(const std::vector<AttemptId>& those) {
    std::vector<std::uint64_t> operations;
    for (const AttemptId& one : those) operations.push_back(one.operation);
    return operations;
  }

  MonoTime now_{std::chrono::hours(1)};
  WaitingClients clients_;
  Link link_;
  OwnClients own_;
};

TEST_F(OwnClientsTest, WhoHasLeftIsTold) {
  clients_.Add(3, link_);
  own_.Add({{3, 1}, false, clients_.table()});
  EXPECT_TRUE(own_.Look(now_).left.empty());
  link_.has_left = true;
  EXPECT_TRUE(own_.Look(now_).left.empty()) << "not looked for with each batch";
  now_ += kLook;
  EXPECT_EQ(Of(own_.Look(now_).left), std::vector<std::uint64_t>{3});
  EXPECT_FALSE(own_.empty()) << "until its row says so";
  own_.Forget(3);
  EXPECT_TRUE(own_.empty());
  clients_.Remove(3, link_);
}

TEST_F(OwnClientsTest, WhoHasJoinedIsToldOnce) {
  clients_.Add(3, link_);
  own_.Add({{3, 1}, true, clients_.table()});
  EXPECT_EQ(Of(own_.Look(now_).joined), std::vector<std::uint64_t>{3});
  EXPECT_EQ(Of(own_.Look(now_).joined), std::vector<std::uint64_t>{3}) << "it did not succeed";
  own_.ToldOf(3);
  EXPECT_TRUE(own_.Look(now_).joined.empty());
  own_.Add({{3, 1}, true, clients_.table()});
  EXPECT_TRUE(own_.Look(now_).joined.empty());
  clients_.Remove(3, link_);
}

TEST_F(OwnClientsTest, ALedgerMayOutliveTheClients) {
  auto clients = std::make_unique<WaitingClients>();
  own_.Add({{3, 1}, false, clients->table()});
  clients.reset();
  EXPECT_EQ(Of(own_.Look(now_).left), std::vector<std::uint64_t>{3});
}

// Two processes over one database.
class ClientsOfTwoTest : public testing::Test {
 protected:
  struct Client {
    Link link;
    ClientWait wait;
  };
  // Of the agent that has no trace; of each process its own clients are one's.
  NewOperation CallBy(int client) {
    auto& one = clients_[client];
    if (one == nullptr) {
      one = std::make_unique<Client>();
      one->wait.Begin(client % 2 == 1 ? here_ : there_, one->link);
    }
    NewOperation call = Call("k");
    call.is_retry_only = true;
    call.wait = &one->wait;
    return call;
  }
  Begun Begin(Ledger& ledger, int client) {
    auto begun = Await(ledger.Begin(CallBy(client), executor_), executor_);
    EXPECT_TRUE(begun) << (begun ? "" : begun.error().detail());
    return begun ? std::move(*begun) : Begun();
  }
  Event Finish(Ledger& ledger, const Event& event) {
    auto done = Await(ledger.Record(Success(event), executor_), executor_);
    EXPECT_TRUE(done);
    return done ? std::move(*done) : Event();
  }

  const SystemClock clock_{};
  PumpedExecutor executor_;
  WaitingClients here_, there_;
  std::map<int, std::unique_ptr<Client>> clients_;
  const std::string url_ = FreshPostgresLedger();
  std::unique_ptr<Ledger> one_ = OpenTimedPostgres(url_, clock_);
  const std::unique_ptr<Ledger> other_ = OpenTimedPostgres(url_, clock_);
};

TEST_F(ClientsOfTwoTest, WhileOneWaitsAtTheOtherItIsAnotherCall) {
  const Begun first = Begin(*one_, 1);
  ASSERT_EQ(first.kind, Kind::kFresh);
  const Begun second = Begin(*other_, 2);
  EXPECT_EQ(second.kind, Kind::kFresh);
  EXPECT_NE(second.event.operation, first.event.operation);
}

TEST_F(ClientsOfTwoTest, OnceItHasLeftItIsARetry) {
  const Begun first = Begin(*one_, 1);
  clients_[1]->link.has_left = true;
  const Begun second = Begin(*other_, 2);
  EXPECT_EQ(second.kind, Kind::kRunning);
  EXPECT_EQ(second.event.operation, first.event.operation);
}

TEST_F(ClientsOfTwoTest, AnAnswerThatWasJustGivenCounts) {
  const Event first = Begin(*one_, 1).event;
  const Event done = Finish(*one_, first);
  one_->MarkAnswered({first.operation, first.attempt});
  clients_.clear();
  EXPECT_EQ(Begin(*other_, 2).kind, Kind::kFresh);
}

TEST_F(ClientsOfTwoTest, AnAnswerThatNobodyHadIsReplayed) {
  const Event first = Begin(*one_, 1).event;
  Finish(*one_, first);
  clients_.clear();
  EXPECT_EQ(Begin(*other_, 2).kind, Kind::kReplay);
}

TEST_F(ClientsOfTwoTest, AProcessThatHasEndedHasNoClients) {
  const Event first = Begin(*one_, 1).event;
  one_.reset();
  const Begun second = Begin(*other_, 2);
  EXPECT_NE(second.kind, Kind::kFresh);
  EXPECT_EQ(second.event.operation, first.operation);
}

}  // namespace
}  // namespace recourse::clients_test
