#include "filters/settle/human_word.h"

#include <gtest/gtest.h>

#include "tests/support/world.h"

namespace recourse::human_word_test {
namespace {

constexpr const char* kPolicy = R"(
version: 1
backends: { shop: { url: "http://127.0.0.1:8080" } }
tools:
  orders.create:
    match: POST shop /shops/{shop}/orders
    effect: write
    breaks_flow: on_failure
    external_ref: answer.body#/id
    undo: { request: "DELETE /shops/{path.shop}/orders/{external_ref}" }
flows: { checkout: { tools: [ orders.create ], ends_with: orders.create } }
)";

class HumanWordTest : public testing::Test {
 protected:
  HumanWordTest() {
    last_.phase = Phase::kUncertain;
    last_.operation = 7;
    last_.attempt = 2;
    last_.tool = "orders.create";
    last_.backend = "shop";
    last_.method = "POST";
    last_.path = "/shops/s1/orders";
    last_.is_step = true;
  }
  static HumanWord Happened(std::string ref = {}) {
    return {.operation = 7, .happened = true, .external_ref = std::move(ref), .reason = "ada: saw"};
  }
  static HumanWord Absent() { return {.operation = 7, .reason = "ada: saw"}; }

  const std::shared_ptr<const Policy> policy_ = PolicyOf(kPolicy);
  Event last_;
};

TEST_F(HumanWordTest, WhatHappenedIsAsIfAProbeHadFoundIt) {
  const auto made = TransitionOf(Happened("o7"), last_, policy_.get());
  ASSERT_TRUE(made) << made.error();
  EXPECT_EQ(made->operation, 7U);
  EXPECT_EQ(made->attempt, 2);
  EXPECT_EQ(made->from, Phase::kUncertain);
  EXPECT_EQ(made->to, Phase::kSucceeded);
  EXPECT_EQ(made->cause, Cause::kHuman);
  EXPECT_EQ(made->detail, "ada: saw");
  EXPECT_EQ(made->external_ref, "o7");
  EXPECT_EQ(made->answer.body,
            R"({"outcome":"executed","external_ref":"o7","settled_by":"human"})");
  ASSERT_TRUE(made->undo);
  EXPECT_EQ(made->undo->target, "/shops/s1/orders/o7");
  ASSERT_TRUE(made->flow);
  EXPECT_EQ(made->flow->to, FlowPhase::kCommitted);
}

TEST_F(HumanWordTest, AWordOnAnotherCallThanTheOneOfThatNumberIsNotTaken) {
  HumanWord word = Happened("o7");
  word.key = last_.key;
  EXPECT_EQ(ObjectionToSettling(word, last_), "");
  last_.key[0] ^= 1U;
  EXPECT_EQ(ObjectionToSettling(word, last_), "the ledger does not have this call any more");
  last_.phase = Phase::kSucceeded;
  last_.cause = Cause::kHuman;
  last_.external_ref = "o7";
  EXPECT_FALSE(IsSettledBy(word, last_));
}

TEST_F(HumanWordTest, WithoutAReferenceItHappenedAllTheSameAndSaysWhatIsMissing) {
  const auto made = TransitionOf(Happened(), last_, policy_.get());
  ASSERT_TRUE(made);
  EXPECT_EQ(made->to, Phase::kSucceeded);
  EXPECT_FALSE(made->undo);
  EXPECT_TRUE(made->detail.starts_with("ada: saw; the undo request cannot be made"))
      << made->detail;
}

TEST_F(HumanWordTest, AReferenceThatTheUndoCannotTakeIsRefused) {
  const auto made = TransitionOf(Happened("../x"), last_, policy_.get());
  ASSERT_FALSE(made);
  EXPECT_TRUE(made.error().starts_with("'../x' cannot be its external_ref")) << made.error();
}

TEST_F(HumanWordTest, AnUndoThatLacksMoreThanTheReferenceIsNoFaultOfTheReference) {
  last_.path = "/elsewhere";
  const auto made = TransitionOf(Happened("o7"), last_, policy_.get());
  ASSERT_TRUE(made);
  EXPECT_FALSE(made->undo);
}

TEST_F(HumanWordTest, WhatIsAbsentIsAFailureToItsFlow) {
  const auto made = TransitionOf(Absent(), last_, policy_.get());
  ASSERT_TRUE(made);
  EXPECT_EQ(made->to, Phase::kProvenAbsent);
  EXPECT_EQ(made->cause, Cause::kHuman);
  EXPECT_EQ(made->detail, "ada: saw");
  ASSERT_TRUE(made->flow);
  EXPECT_EQ(made->flow->to, FlowPhase::kBreaking);
}

TEST_F(HumanWordTest, AnUndoRequestHasNoUndoOfItsOwnAndNoAnswer) {
  last_.undoes = 3;
  last_.is_step = false;
  const auto made = TransitionOf(Happened("r1"), last_, policy_.get());
  ASSERT_TRUE(made);
  EXPECT_EQ(made->to, Phase::kSucceeded);
  EXPECT_FALSE(made->undo || made->answer_kept || made->flow);
}

TEST_F(HumanWordTest, WithoutAPolicyTheOutcomeIsSettledAllTheSame) {
  const auto made = TransitionOf(Happened("o7"), last_, nullptr);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->to, Phase::kSucceeded);
  EXPECT_FALSE(made->undo || made->flow);
}

TEST_F(HumanWordTest, OnlyWhatIsUnknownCanBeSettled) {
  for (int phase = 0; phase < kPhaseCount; ++phase) {
    last_.phase = static_cast<Phase>(phase);
    EXPECT_EQ(ObjectionToSettling(Absent(), last_).empty(), last_.phase == Phase::kUncertain)
        << phase;
  }
}

TEST_F(HumanWordTest, OfACallThatWaitsForAHumanItSaysWhichCommandDecidesIt) {
  last_.phase = Phase::kClaimed;
  EXPECT_EQ(ObjectionToSettling(Absent(), last_),
            "operation 7 waits for approval and was not sent: decide it, recourse approvals "
            "approve 7 or recourse approvals reject 7");
  last_.phase = Phase::kApproved;
  EXPECT_EQ(ObjectionToSettling(Absent(), last_),
            "operation 7 was approved and is to be sent: wait for that");
}

TEST_F(HumanWordTest, WhatWasProvedAbsentMayHaveHappenedAllTheSame) {
  last_.phase = Phase::kProvenAbsent;
  HumanWord word = Happened("o7");
  EXPECT_NE(ObjectionToSettling(word, last_), "");
  word.corrects_proof = true;
  EXPECT_EQ(ObjectionToSettling(word, last_), "");
  EXPECT_EQ(TransitionOf(word, last_, policy_.get())->from, Phase::kProvenAbsent);
}

TEST_F(HumanWordTest, TheSameWordOnceMoreIsKnownForWhatItIs) {
  last_.cause = Cause::kHuman;
  last_.phase = Phase::kSucceeded;
  last_.external_ref = "o7";
  EXPECT_TRUE(IsSettledBy(Happened("o7"), last_));
  EXPECT_TRUE(IsSettledBy(Happened(), last_));
  EXPECT_FALSE(IsSettledBy(Happened("o8"), last_));
  EXPECT_FALSE(IsSettledBy(Absent(), last_));
  last_.cause = Cause::kProbePresent;
  EXPECT_FALSE(IsSettledBy(Happened("o7"), last_));
  last_.cause = Cause::kHuman;
  last_.phase = Phase::kProvenAbsent;
  EXPECT_TRUE(IsSettledBy(Absent(), last_));
}

}  // namespace
}  // namespace recourse::human_word_test
