#include "proxy/admin/views/approval_view.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "filters/ledger/memory/make_memory_ledger.h"
#include "proxy/base/json/json.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::approval_view_test {
namespace {

class ApprovalViewTest : public testing::Test {
 protected:
  ApprovalViewTest() {
    event_.id = 9;
    event_.operation = 7;
    event_.wall_ms = 1'000;
    event_.phase = Phase::kClaimed;
    event_.tool = "mail.send";
    event_.caller = "local";
    event_.method = "POST";
  }
  Json Line() {
    std::string line;
    AppendApprovalLine(line, event_, "to ada", pods_);
    auto json = ParseJson(line);
    EXPECT_TRUE(json) << line;
    return json.value_or(Json());
  }

  ManualClock clock_;
  const std::unique_ptr<Ledger> ledger_ = MakeMemoryLedger(clock_);
  PodNames pods_{*ledger_};
  Event event_;
};

TEST_F(ApprovalViewTest, ALineHasWhatTheCallWaitsFor) {
  event_.approval = ApprovalFacts{};
  event_.approval->by = {"finance"};
  event_.approval->asked_ms = 2'000;
  event_.approval->expires_ms = 3'000;
  const Json line = Line();
  EXPECT_EQ(ScalarText(line, "asked"), "1970-01-01T00:00:02.000Z");
  EXPECT_EQ(ScalarText(line, "expires"), "1970-01-01T00:00:05.000Z");
  EXPECT_EQ(ScalarText(line, "needs"), "1");
  ASSERT_NE(line.Find("by"), nullptr);
  EXPECT_NE(line.Find("digest"), nullptr);
  EXPECT_EQ(line.Find("sealed"), nullptr);
}

TEST_F(ApprovalViewTest, ALineOfACallWhoseKeyIsMissingSaysSoAndMakesNothingUp) {
  event_.is_locked = true;
  event_.detail = "its details are sealed with key 'k1' (check 00)";
  const Json line = Line();
  EXPECT_EQ(ScalarText(line, "sealed"), "true");
  EXPECT_EQ(ScalarText(line, "operation"), "7");
  EXPECT_EQ(ScalarText(line, "detail"), event_.detail);
  EXPECT_EQ(ScalarText(line, "tool"), "mail.send");
  EXPECT_EQ(ScalarText(line, "caller"), "local");
  EXPECT_EQ(ScalarText(line, "status"), "waiting");
  EXPECT_EQ(ScalarText(line, "asked"), "1970-01-01T00:00:01.000Z");
  for (const char* name : {"why", "needs", "approvals", "by", "expires", "digest", "body_bytes"}) {
    EXPECT_EQ(line.Find(name), nullptr) << name;
  }
}

// The whole call is only shown where it could be read.
TEST(ApprovalShapesTest, OnlyALineMayLackWhatIsSealed) {
  for (const JsonShape& shape : ApprovalShapes()) {
    if (shape.name != "Approval" && shape.name != "ApprovalLine") continue;
    for (const MemberDoc& member : shape.members) {
      if (member.name == "expires" || member.name == "digest" || member.name == "by") {
        EXPECT_EQ(member.may_lack, shape.name == "ApprovalLine") << shape.name << member.name;
      }
    }
  }
}

}  // namespace
}  // namespace recourse::approval_view_test
