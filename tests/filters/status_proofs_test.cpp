// The table of statuses that prove that nothing was done, and its page.
#include "filters/call/status_proofs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

namespace recourse::status_proofs_test {
namespace {

constexpr const char* kPage = "filters/README.md";

std::string ItemOf(const StatusFact& fact) {
  const std::string repeat = fact.proof == StatusProof::kRejected      ? "`failed_ttl`"
                             : fact.proof == StatusProof::kRejectedNow ? "sent"
                                                                       : "sent; no failure";
  return "* " + std::to_string(fact.status) + " " + std::string(fact.name) + " (" +
         std::string(fact.section) + "): " + repeat + "\n";
}

TEST(StatusProofsTest, ThePageHasTheList) {
  std::ifstream file(kPage);
  ASSERT_TRUE(file.is_open()) << kPage << " is read from the top of the tree";
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  std::string list;
  for (const StatusFact& fact : kStatusProofs) list += ItemOf(fact);
  EXPECT_NE(page.find("\n\n" + list + "\n"), std::string::npos) << kPage << " has to hold:\n"
                                                                << list;
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

}  // namespace
}  // namespace recourse::status_proofs_test
