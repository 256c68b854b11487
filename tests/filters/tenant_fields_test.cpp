// What is sent about a call reaches the things of its tenant.
#include "policy/undo/tenant_fields.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "filters/call/call_values.h"
#include "filters/call/outcome.h"

namespace recourse::tenant_fields_test {
namespace {

TEST(TenantFieldsTest, WhatIsSentAboutACallReachesItsTenant) {
  const Headers call = {{"Stripe-Account", "acct_1"}, {"Authorization", "Bearer s3cret"},
                        {"X-Api-Key", "s3cret"},      {"X-User-Id", "7"},
                        {"Content-Profile", "sales"}, {"X-Workspace", "w1"},
                        {"X-Forwarded-Tenant", "t1"}};
  Headers undo = {{"X-Workspace", "of the policy"}};
  EXPECT_TRUE(AddTenants(call, {}, "DELETE", undo));
  EXPECT_EQ(undo, (Headers{{"X-Workspace", "of the policy"},
                           {"Stripe-Account", "acct_1"},
                           {"Content-Profile", "sales"}}));
  Headers probe;
  EXPECT_TRUE(AddTenants(undo, {}, "GET", probe));
  EXPECT_EQ(*FindHeader(probe, "Accept-Profile"), "sales") << "PostgREST reads by that one";
  EXPECT_EQ(*FindHeader(probe, "Content-Profile"), "sales") << "a write made of the probe";

  const std::vector<Selector> redact = {*ParseSelector("header.stripe-account")};
  Headers kept;
  EXPECT_FALSE(AddTenants(call, redact, "DELETE", kept));
  EXPECT_EQ(FindHeader(kept, "Stripe-Account"), nullptr);
  kept.emplace_back("Stripe-Account", "of the policy");
  EXPECT_TRUE(AddTenants(call, redact, "DELETE", kept));
}

TEST(TenantFieldsTest, WhatIsMadeOfACallReachesItsTenant) {
  Tool tool;
  tool.external_ref = *ParseSelector("answer.body#/id");
  tool.undo.emplace();
  tool.undo->request = *ParseRequestLine("DELETE /orders/{external_ref}");
  tool.settled_by.emplace();
  tool.settled_by->request = *ParseRequestLine("GET /jobs/{answer.body#/id}");
  Answer made_it;
  made_it.response.status = 201;
  made_it.response.body = R"({"id":"o7"})";
  const Result<Answer> answer = std::move(made_it);
  const Headers of_call = {{"Authorization", "Bearer s3cret"}, {"X-Tenant", "b"}};
  const std::optional<Json> json = ReadAnswerBody(*answer);
  CallValues values;
  values.answer_status = 201;
  values.answer_body = &*json;
  values.headers = &of_call;
  const auto transition = [&] {
    return MakeTransition(Event(), Classify(tool, answer, values), tool, answer, values);
  };
  const Transition made = transition();
  ASSERT_TRUE(made.undo && made.task);
  EXPECT_EQ(made.undo->headers, (Headers{{"X-Tenant", "b"}}));
  EXPECT_EQ(made.task->headers, (Headers{{"X-Tenant", "b"}}));

  tool.redact = {*ParseSelector("header.X-Tenant")};
  const Transition unmade = transition();
  EXPECT_FALSE(unmade.undo || unmade.task) << "it would reach another tenant's thing";
  EXPECT_NE(unmade.detail.find(kTenantRedacted), std::string::npos) << unmade.detail;
}

}  // namespace
}  // namespace recourse::tenant_fields_test
