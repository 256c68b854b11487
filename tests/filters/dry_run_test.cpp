#include "filters/key/dry_run.h"

#include <gtest/gtest.h>

#include <string>

#include "proxy/base/json/json.h"

namespace recourse::dry_run_test {
namespace {

CallBody JsonBody(const std::string& text) {
  CallBody body;
  body.form = BodyForm::kJson;
  body.json = *ParseJson(text);
  return body;
}

TEST(DryRunTest, ACallThatAsksForATryIsOne) {
  for (const Header& field : {Header{"X-Dry-Run", "1"}, Header{"Dry-Run", "true"},
                              Header{"Prefer", "dry-run"}, Header{"prefer", "tx=rollback"}}) {
    EXPECT_TRUE(MayBeDryRun({field}, {}, {})) << field.first;
  }
  // Kubernetes has dryRun=All.
  for (const char* const name : {"dry_run", "dryRun", "validateOnly", "validate_only", "what-if",
                                 "Validation.Only", "the-very-long-name-of-a-dry-run"}) {
    EXPECT_TRUE(MayBeDryRun({}, {{name, "All"}}, {})) << name;
    EXPECT_TRUE(MayBeDryRun({}, {{name, ""}}, {})) << name;
    EXPECT_TRUE(MayBeDryRun({}, {}, JsonBody("{\"" + std::string(name) + "\": true}"))) << name;
  }
}

TEST(DryRunTest, ACallThatDeclinesOrSaysNothingIsNone) {
  EXPECT_FALSE(MayBeDryRun({}, {}, {}));
  EXPECT_FALSE(MayBeDryRun({}, {{"a-name-behind-which-comes-validationonly", "1"}}, {}));
  EXPECT_FALSE(MayBeDryRun({{"X-Dry-Run", "false"}, {"Prefer", "return=minimal"}}, {}, {}));
  EXPECT_FALSE(MayBeDryRun({}, {{"dry_run", "0"}, {"name", "dry_run"}}, {}));
  EXPECT_FALSE(MayBeDryRun({}, {}, JsonBody(R"({"dry_run": false, "validateOnly": null})")));
  EXPECT_FALSE(MayBeDryRun({}, {}, JsonBody(R"({"dry": true, "nested": {"dry_run": true}})")));
}

}  // namespace
}  // namespace recourse::dry_run_test
