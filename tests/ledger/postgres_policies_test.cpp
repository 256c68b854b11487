// What the processes of a group know of each other's policies.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "filters/ledger/shared_view.h"
#include "tests/ledger/postgres_relay.h"
#include "tests/ledger/postgres_upkeep_fixture.h"

namespace recourse::postgres_policies_test {
namespace {

using Versions = std::set<std::string>;

class PoliciesTest : public PostgresUpkeepTest {
 protected:
  static SharedLedgerView& ViewOf(Ledger& ledger) {
    return dynamic_cast<SharedLedgerView&>(ledger);
  }
  static void Announce(Ledger& ledger, const std::string& version) {
    EXPECT_TRUE(ViewOf(ledger).SharePolicy(version, "files of " + version));
  }
  static void TakeIntoForce(Ledger& ledger, const std::string& version) {
    EXPECT_TRUE(ViewOf(ledger).PolicyInForce(version));
  }
  static Versions Seen(Ledger& by) {
    const auto versions = ViewOf(by).PoliciesOfGroup();
    EXPECT_TRUE(versions);
    return versions ? Versions(versions->in_force.begin(), versions->in_force.end()) : Versions();
  }
};

TEST_F(PoliciesTest, OneThatIsAnnouncedStandsBesideTheOneInForce) {
  Announce(*one_, "a1");
  TakeIntoForce(*one_, "a1");
  EXPECT_EQ(Seen(*other_), Versions{"a1"});
  EXPECT_EQ(Seen(*one_), Versions{}) << "it is its own";
  Announce(*one_, "b2");
  EXPECT_EQ(Seen(*other_), (Versions{"a1", "b2"}));
  TakeIntoForce(*one_, "b2");
  EXPECT_EQ(Seen(*other_), Versions{"b2"});
  Announce(*one_, "c3");
  TakeIntoForce(*one_, "b2");  // taken back
  (void)Seen(*one_);
  EXPECT_EQ(Seen(*other_), Versions{"b2"});
}

TEST_F(PoliciesTest, WhoeverBeginsWithAnotherIsSeenBeforeItIsInForce) {
  Announce(*one_, "a1");
  EXPECT_EQ(Seen(*other_), Versions{"a1"});
}

TEST_F(PoliciesTest, ANewStreamHasThoseOfTheOneBefore) {
  Announce(*one_, "a1");
  TakeIntoForce(*one_, "a1");
  Announce(*one_, "b2");
  const Event before = Finish(*one_, "before");
  Execute("UPDATE stream SET state = 3 WHERE stream = " +
          std::to_string(UnpackRowId(before.id).stream));
  const Event after = Finish(*one_, "after");
  ASSERT_NE(UnpackRowId(after.id).stream, UnpackRowId(before.id).stream);
  EXPECT_EQ(Seen(*other_), (Versions{"a1", "b2"}));
}

TEST_F(PoliciesTest, ARowThatIsNotConfirmedHoldsUpNobodyAndIsWrittenOnce) {
  PostgresRelay relay(SocketOf(url_));
  const auto cut = OpenTestPostgres(UrlThrough(relay.directory(), url_), clock_);
  Finish(*cut, "before");
  const auto rows = [&] { return Ask("SELECT count(*) FROM event WHERE kind = 5"); };
  const PolicyChange change{PolicyChange::Cause::kReload, "a1", DigestOf("a1")};
  const std::int64_t there = rows();
  relay.SetAway(true);
  const auto noted = cut->RecordPolicy(change);
  ASSERT_FALSE(noted);
  EXPECT_TRUE(noted.error().detail().contains("once it does")) << noted.error().detail();
  relay.SetAway(false);
  clock_.Advance(Millis(2'000));  // it tries again at once
  const auto later = cut->RecordPolicy(change);
  EXPECT_TRUE(later) << later.error().detail();
  EXPECT_EQ(rows(), there + 1);
}

}  // namespace
}  // namespace recourse::postgres_policies_test
