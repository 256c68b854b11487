// A verb that reads in several rounds, between which another process writes what it has read.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "filters/ledger/postgres/read_rows.h"
#include "tests/ledger/postgres_upkeep_fixture.h"

namespace recourse::torn_read_test {
namespace {

// Whoever asks for an operation by its number waits until the lock is given back.
class TornReadTest : public PostgresUpkeepTest {
 protected:
  static constexpr PgStatement kWaiting{
      "test_waiting", "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"};

  static NewOperation Keyed(Millis lives) { return KeyedCall("k", lives); }
  bool Waits() {
    const auto asked = PgConnection::Open({.url = url_});
    if (!asked) return false;
    (*asked)->Queue(kWaiting);
    const auto rows = (*asked)->Run();
    return rows && rows->front().Int(0, 0) > 0;
  }
};

TEST_F(TornReadTest, TwoPodsThatSendAgainAtOnceMakeOneAttempt) {
  const Event first = Dispatch(*one_, Keyed(Millis::max()));
  Record(*one_, Move(first, Phase::kUncertain, Cause::kTimeout));
  const auto lock = PgConnection::Open({.url = url_});
  ASSERT_TRUE(lock && (*lock)->Execute("BEGIN; LOCK TABLE moved IN ACCESS EXCLUSIVE MODE"));
  // It asks for the key, and then how old the operation is.
  Started<Result<Begun>> slow(other_->Begin(Keyed(Millis(3'600'000)), executor_));
  while (!Waits() && !executor_.has_jobs()) std::this_thread::yield();
  const auto fast = TryBegin(*one_, Keyed(Millis::max()));
  ASSERT_TRUE((*lock)->Execute("COMMIT"));
  const auto slow_begun = slow.Get(executor_);
  ASSERT_TRUE(fast && slow_begun);
  const bool is_fast = fast->kind == Begun::Kind::kFresh;
  const bool is_slow = slow_begun->kind == Begun::Kind::kFresh;
  EXPECT_TRUE(is_fast != is_slow) << is_fast << is_slow;
  EXPECT_EQ((is_fast ? *fast : *slow_begun).event.attempt, 2);
  EXPECT_EQ(Problem(), "");
}

// What was read first is what is decided on, and what has to hold when that is written.
TEST(ReadRowsTest, AnOperationThatIsReadAgainStaysAsItWas) {
  const Digest key = Sha256("key");
  RowDecryptor opener(nullptr);
  ReadRows rows(opener, false);
  const auto read = [&](std::int64_t version, std::uint64_t operation) {
    Fetched fetched;
    fetched.versions.operations[AsUuid(key)] = {.version = version, .operation = operation};
    fetched.keys_of[7] = AsUuid(key);
    rows.Take(fetched);
  };
  EXPECT_EQ(rows.Operation(key), nullptr);
  read(1, 6);
  ASSERT_NE(rows.Operation(key), nullptr);
  EXPECT_FALSE(rows.OfOperation(7)) << "it is not known to have that key";
  read(2, 7);
  EXPECT_EQ(rows.versions().operations.at(AsUuid(key)).version, 1);
}

TEST(ReadRowsTest, WhatIsKnownByItsKeyIsNotAskedForByItsNumber) {
  const Digest key = Sha256("key");
  RowDecryptor opener(nullptr);
  ReadRows rows(opener, false);
  EXPECT_EQ(rows.Operation(key), nullptr);
  Fetched fetched;
  fetched.versions.operations[AsUuid(key)] = {.version = 1, .operation = 7};
  rows.Take(fetched);
  const auto found = rows.OfOperation(7);
  ASSERT_TRUE(found);
  EXPECT_NE(found->stored, nullptr);
  EXPECT_TRUE(rows.wishes().empty());
}

// An intent, as it names an operation, likewise; a mark is read again to see that it has moved.
TEST(ReadRowsTest, AnIntentThatIsReadAgainStaysAsItWas) {
  const Digest intent = Sha256("intent"), mark = Sha256("mark");
  RowDecryptor opener(nullptr);
  ReadRows rows(opener, false);
  const auto read = [&](std::int64_t version) {
    Fetched fetched;
    const auto place = static_cast<std::uint64_t>(version);
    fetched.versions.intents[AsUuid(intent)] = {.version = version, .row = 7, .place = 0};
    fetched.versions.intents[AsUuid(mark)] = {.version = version, .row = 7, .place = place};
    fetched.open.emplace();
    rows.Take(fetched);
  };
  EXPECT_EQ(rows.Intent(intent), nullptr);
  EXPECT_EQ(rows.Intent(mark), nullptr);
  read(1);
  EXPECT_EQ(rows.OpenWrites(), nullptr);
  read(2);
  EXPECT_EQ(rows.versions().intents.at(AsUuid(intent)).version, 1);
  EXPECT_TRUE(rows.HasMoved(mark, *rows.Intent(mark)));
}

}  // namespace
}  // namespace recourse::torn_read_test
