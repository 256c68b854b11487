#include "proxy/base/http/argument_fields.h"

#include <gtest/gtest.h>

#include <string>

#include "proxy/base/http/dry_run_names.h"

namespace recourse::argument_fields_test {
namespace {

// Else the answer to a try would be that to the call itself.
TEST(ArgumentFieldsTest, WhateverAsksForATryIsAnArgument) {
  for (const char* const name :
       {"X-Dry-Run", "Dry-Run", "X-Simulate", "X-Preview", "X-Test-Only", "X-Validate-Only",
        "X-Request-Dry_Run", "What-If", "X-Amz-Invocation-Type"}) {
    EXPECT_EQ(ArgumentFieldsOf({{name, "x"}}).size(), 1U) << name;
  }
  EXPECT_EQ(ArgumentFieldsOf({{"Prefer", "return=minimal, dry-run"}}),
            (Headers{{"prefer", "dry-run"}}));
  EXPECT_EQ(ArgumentFieldsOf({{"X-Request-Id", "1"}, {"Date", "x"}, {"Accept", "*/*"}}), Headers());
}

TEST(ArgumentFieldsTest, ANameAsksForATryByItsWords) {
  EXPECT_TRUE(NamesDryRun("validateOnly"));
  EXPECT_TRUE(NamesDryRun("the-very-long-name-of-a-dry_run"));
  EXPECT_FALSE(NamesDryRun("a-name-behind-which-comes-validationonly"));
  EXPECT_FALSE(NamesDryRun(""));
}

}  // namespace
}  // namespace recourse::argument_fields_test
