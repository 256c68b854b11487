// The table of statuses that prove that nothing was done, and its page.
#include "filters/status_proofs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "filters/call/call_values.h"
#include "filters/call/outcome.h"

namespace recourse::status_proofs_test {
namespace {

constexpr const char* kPage = "filters/README.md";

// A list's item as the page has it, but for its line breaks.
std::string ItemOf(const char* what, auto is_listed) {
  std::string item;
  for (const StatusFact& fact : kStatusProofs) {
    if (is_listed(fact.proof)) item += (item.empty() ? "" : ", ") + std::to_string(fact.status);
  }
  return std::string("* ") + what + ": " + item;
}

TEST(StatusProofsTest, ThePageHasTheLists) {
  std::ifstream file(kPage);
  ASSERT_TRUE(file.is_open()) << kPage << " is read from the top of the tree";
  std::string page;
  for (std::string word; file >> word;) page += word + " ";
  const auto holds = [&](const std::string& item) {
    EXPECT_NE(page.find(item + " "), std::string::npos) << kPage << " has to hold:\n" << item;
  };
  holds(ItemOf("gets the same for the tool's `failed_ttl` (0 by default)",
               [](StatusProof proof) { return proof == StatusProof::kRejected; }));
  holds(ItemOf("is sent", [](StatusProof proof) { return proof == StatusProof::kRejectedNow; }));
  holds(
      ItemOf("is sent, and no flow is broken, as the server asks for the call again, otherwise or "
             "later",
             [](StatusProof proof) { return proof != StatusProof::kNone && !IsFailure(proof); }));
}

TEST(StatusProofsTest, EachStatusOnceAndInOrder) {
  const auto later =
      std::ranges::adjacent_find(kStatusProofs, std::ranges::greater_equal(), &StatusFact::status);
  EXPECT_EQ(later, kStatusProofs.end());
}

TEST(StatusProofsTest, WhatMayHaveActedProvesNothing) {
  for (const int status : {200, 202, 302, 303, 408, 409, 418, 499, 500, 502, 503, 504, 507}) {
    EXPECT_EQ(ProofOf(status), StatusProof::kNone) << status;
  }
}

TEST(StatusProofsTest, ASuccessThatWasCutProvesNothingWhereItsBodyTellsOrLaterNews) {
  const auto of_cut = [](const Tool& tool, int status) {
    Answer answer;
    answer.response.status = status;
    answer.response.body = R"({"ok":fal)";
    answer.body_complete = false;
    CallValues values;
    values.answer_status = status;
    return Classify(tool, answer, values);
  };
  Tool told;
  EXPECT_EQ(of_cut(told, 202).phase, Phase::kAnswerLost);
  told.failed_when = {*ParseCondition("answer.status == 206")};
  EXPECT_EQ(of_cut(told, 200).phase, Phase::kAnswerLost) << "its head tells";
  told.failed_when = {*ParseCondition("answer.body#/ok == false")};
  EXPECT_EQ(of_cut(told, 200).phase, Phase::kUncertain);
  EXPECT_EQ(of_cut(told, 200).problem, ErrorCode::kOutcomeUnknown);
  told.success_when = {*ParseCondition("answer.status == 200")};
  EXPECT_EQ(of_cut(told, 200).phase, Phase::kAnswerLost) << "its head is enough";
  told.settled_by.emplace();
  EXPECT_EQ(of_cut(told, 200).phase, Phase::kUncertain) << "it was taken on, not done";
  Tool asked;
  asked.settle.emplace();
  EXPECT_EQ(of_cut(asked, 200).phase, Phase::kAnswerLost);
  EXPECT_EQ(of_cut(asked, 202).phase, Phase::kUncertain) << "it was taken on, not done";
  for (const char* const withheld : {"", "it is encoded"}) {
    Answer answer;
    answer.response.status = 200;
    answer.body_complete = answer.over_cap = true;
    answer.withheld = withheld;
    EXPECT_EQ(Classify(Tool(), answer, {}).phase, Phase::kSucceeded);
    EXPECT_EQ(Classify(told, answer, {}).phase, Phase::kUncertain) << "it was taken on, not done";
  }
}

}  // namespace
}  // namespace recourse::status_proofs_test
