// Who watches the ledger: what they are told, and that none of them holds up anybody else.
#include "proxy/admin/api/event_stream.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/memory/make_memory_ledger.h"
#include "proxy/base/watch_limits.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::event_stream_test {
namespace {

class EventStreamTest : public testing::Test {
 protected:
  Event Begin(const std::string& key) {
    auto begun = Await(ledger_->Begin(Call(key), executor_), executor_);
    EXPECT_TRUE(begun);
    return begun ? begun->event : Event();
  }
  void Append(std::size_t operations, std::size_t path_bytes = 8) {
    for (std::size_t i = 0; i < operations; ++i) {
      NewOperation call = Call("k" + std::to_string(next_++));
      call.event.path = "/" + std::string(path_bytes, 'x');
      EXPECT_TRUE(Await(ledger_->Begin(std::move(call), executor_), executor_));
    }
  }
  std::unique_ptr<BodySource> Watch(std::optional<std::uint64_t> after = std::nullopt) {
    auto source = stream_.Watch(after ? std::optional(NewsPlace::OfRow(*after)) : std::nullopt);
    EXPECT_TRUE(source) << (source ? "" : source.error());
    return source ? std::move(*source) : nullptr;
  }
  // How the message of the newest row begins.
  std::string Newest() { return "id: " + std::to_string(ledger_->Stats().last_id) + "\n"; }
  // What comes until `until` is in it, or the end of the stream.
  std::string Read(const BodySource& source, std::string_view until) {
    std::string text;
    std::vector<char> bytes(64 * 1024);
    while (text.find(until) == std::string::npos) {
      pollfd ready{source.fd(), POLLIN, 0};
      if (::poll(&ready, 1, 60'000) <= 0) {
        ADD_FAILURE() << "nothing came after: " << text.substr(0, 2'000);
        break;
      }
      const ssize_t size = ::read(source.fd(), bytes.data(), bytes.size());
      if (size <= 0) break;
      text.append(bytes.data(), static_cast<std::size_t>(size));
    }
    return text;
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  std::unique_ptr<Ledger> ledger_ = MakeMemoryLedger(clock_);
  EventStream stream_{*ledger_, clock_};
  std::size_t next_ = 0;
};

// The process closes its ledger while people still watch.
TEST_F(EventStreamTest, AfterItsEndTheLedgerIsNotReadAndMayBeGone) {
  const auto source = Watch();
  Read(*source, "event: hello");
  stream_.Stop();
  Append(1);
  stream_.Notify();
  pollfd ready{source->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
  ledger_.reset();
  stream_.Notify();
}

TEST_F(EventStreamTest, WhatIsAppendedIsTold) {
  Begin("before");
  const auto source = Watch();
  EXPECT_NE(Read(*source, "\n\n").find("\"gap\":false"), std::string::npos);
  const Event event = Begin("a");
  stream_.Notify();
  const std::string text = Read(*source, "\"phase\":\"DISPATCHING\"");
  EXPECT_NE(text.find("id: " + std::to_string(event.id) + "\nevent: event\ndata: {"),
            std::string::npos);
  EXPECT_EQ(text.find("id: 1\n"), std::string::npos);
}

TEST_F(EventStreamTest, GoesOnAfterTheEventNamed) {
  Append(500);
  const std::string text = Read(*Watch(100), Newest());
  EXPECT_EQ(text.find("id: 100\n"), std::string::npos);
  EXPECT_NE(text.find("id: 101\n"), std::string::npos);
}

TEST_F(EventStreamTest, WhoIsFarBehindIsToldToAskAnew) {
  Append(limits::kStreamBacklogRows + 10);
  const std::string text = Read(*Watch(1), "\n\n");
  EXPECT_NE(text.find("\"gap\":true"), std::string::npos);
  EXPECT_EQ(text.find("event: event"), std::string::npos);
}

TEST_F(EventStreamTest, OnlySoManyWatchAndALeavingOneMakesRoom) {
  std::vector<std::unique_ptr<BodySource>> sources;
  for (std::size_t i = 0; i < limits::kStreamWatchersMax; ++i) sources.push_back(Watch());
  EXPECT_FALSE(stream_.Watch(std::nullopt));
  sources.pop_back();
  auto again = stream_.Watch(std::nullopt);
  for (int tries = 0; !again && tries < 6'000; ++tries) {
    ::poll(nullptr, 0, 10);
    again = stream_.Watch(std::nullopt);
  }
  EXPECT_TRUE(again);
}

TEST_F(EventStreamTest, WhoTakesNothingIsLetGoAndHoldsUpNobody) {
  const auto slow = Watch();
  const auto fast = Watch();
  Append(3'000, 1'000);  // more than a socket holds
  stream_.Notify();
  EXPECT_NE(Read(*fast, Newest()).find(Newest()), std::string::npos);
  clock_.Advance(limits::kStreamStall + Millis(1));
  Append(1);
  stream_.Notify();
  Read(*fast, Newest());
  // What was on its way can still be read; then it ends.
  EXPECT_EQ(Read(*slow, Newest()).find(Newest()), std::string::npos);
}

TEST_F(EventStreamTest, EndsAfterAWhileSoThatItsWatcherIsAskedAgain) {
  const auto source = Watch();
  Read(*source, "\n\n");
  clock_.Advance(limits::kStreamFor + Millis(1));
  Append(1);
  stream_.Notify();
  Read(*source, "the end");
  char byte = 0;
  EXPECT_EQ(::read(source->fd(), &byte, 1), 0);
}

TEST_F(EventStreamTest, ASilentLedgerIsSaidToBeSilent) {
  const auto source = Watch();
  Read(*source, "\n\n");
  clock_.Advance(limits::kStreamHeartbeat);
  EXPECT_NE(Read(*source, ": nothing new").find(": nothing new"), std::string::npos);
}

}  // namespace
}  // namespace recourse::event_stream_test
