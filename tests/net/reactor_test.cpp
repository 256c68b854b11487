#include "proxy/net/loop/reactor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace recourse::poller_test {
namespace {

// Notes its name when it goes on, and queues itself for the end of the turn as often as it is to.
struct Noted final : PendingOp {
  Noted(Reactor& of, std::string& to, char as, int lasts = 0)
      : PendingOp(&Noted::Run), reactor(of), notes(to), name(as), last_times(lasts) {}
  static void Run(PendingOp& self) {
    auto& noted = static_cast<Noted&>(self);
    noted.notes += noted.name;
    if (noted.last_times-- > 0) noted.reactor.QueueLast(noted);
  }

  Reactor& reactor;
  std::string& notes;
  const char name;
  int last_times;
};

class PollerTest : public testing::Test {
 protected:
  std::string Turn() {
    notes.clear();
    reactor.RunReady();
    return notes;
  }

  Reactor reactor;
  std::string notes;
};

TEST_F(PollerTest, WhoIsToGoLastGoesBehindEverybodyElseOfTheTurn) {
  Noted a(reactor, notes, 'a', 1), b(reactor, notes, 'b'), c(reactor, notes, 'c', 1);
  for (Noted* const each : {&a, &b, &c}) reactor.Queue(*each);
  EXPECT_EQ(Turn(), "abcac");
  EXPECT_FALSE(reactor.has_queued());
}

TEST_F(PollerTest, WhoWantsToGoLastOnceMoreGoesWhenAllOfThemHave) {
  Noted a(reactor, notes, 'a', 2), b(reactor, notes, 'b', 2);
  reactor.Queue(a);
  reactor.Queue(b);
  EXPECT_EQ(Turn(), "ababab");
  EXPECT_FALSE(reactor.has_queued());
}

TEST_F(PollerTest, NobodyGoesLastForEver) {
  Noted a(reactor, notes, 'a', 3), b(reactor, notes, 'b');
  reactor.Queue(a);
  EXPECT_EQ(Turn(), "aaa");
  EXPECT_TRUE(reactor.has_queued()) << "it would sleep";
  reactor.Queue(b);
  EXPECT_EQ(Turn(), "ba");
  EXPECT_FALSE(reactor.has_queued());
}

TEST_F(PollerTest, ManyWhoGoLastDoNotWaitForTheWholeTurn) {
  std::vector<Noted> first(Reactor::kTogetherMax, Noted(reactor, notes, 'a', 1));
  Noted b(reactor, notes, 'b');
  for (Noted& each : first) reactor.Queue(each);
  reactor.Queue(b);
  EXPECT_EQ(Turn(), std::string(2UL * Reactor::kTogetherMax, 'a') + "b");
}

}  // namespace
}  // namespace recourse::poller_test
