#include "proxy/net/loop/poller.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace recourse::poller_test {
namespace {

// Notes its name when it goes on, and queues itself for the end of the turn as often as it is to.
struct Noted final : Waiter {
  Noted(Poller& of, std::string& to, char as, int lasts = 0)
      : Waiter(&Noted::Run), poller(of), notes(to), name(as), last_times(lasts) {}
  static void Run(Waiter& self) {
    auto& noted = static_cast<Noted&>(self);
    noted.notes += noted.name;
    if (noted.last_times-- > 0) noted.poller.QueueLast(noted);
  }

  Poller& poller;
  std::string& notes;
  const char name;
  int last_times;
};

class PollerTest : public testing::Test {
 protected:
  std::string Turn() {
    notes.clear();
    poller.GoOn();
    return notes;
  }

  Poller poller;
  std::string notes;
};

TEST_F(PollerTest, WhoIsToGoLastGoesBehindEverybodyElseOfTheTurn) {
  Noted a(poller, notes, 'a', 1), b(poller, notes, 'b'), c(poller, notes, 'c', 1);
  for (Noted* const each : {&a, &b, &c}) poller.Queue(*each);
  EXPECT_EQ(Turn(), "abcac");
  EXPECT_FALSE(poller.has_queued());
}

TEST_F(PollerTest, WhoWantsToGoLastOnceMoreGoesWhenAllOfThemHave) {
  Noted a(poller, notes, 'a', 2), b(poller, notes, 'b', 2);
  poller.Queue(a);
  poller.Queue(b);
  EXPECT_EQ(Turn(), "ababab");
  EXPECT_FALSE(poller.has_queued());
}

TEST_F(PollerTest, NobodyGoesLastForEver) {
  Noted a(poller, notes, 'a', 3), b(poller, notes, 'b');
  poller.Queue(a);
  EXPECT_EQ(Turn(), "aaa");
  EXPECT_TRUE(poller.has_queued()) << "it would sleep";
  poller.Queue(b);
  EXPECT_EQ(Turn(), "ba");
  EXPECT_FALSE(poller.has_queued());
}

TEST_F(PollerTest, ManyWhoGoLastDoNotWaitForTheWholeTurn) {
  std::vector<Noted> first(Poller::kTogetherMax, Noted(poller, notes, 'a', 1));
  Noted b(poller, notes, 'b');
  for (Noted& each : first) poller.Queue(each);
  poller.Queue(b);
  EXPECT_EQ(Turn(), std::string(2UL * Poller::kTogetherMax, 'a') + "b");
}

}  // namespace
}  // namespace recourse::poller_test
