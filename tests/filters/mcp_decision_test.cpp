#include "filters/mcp/mcp_decision.h"

#include <gtest/gtest.h>

#include "policy/loader.h"

namespace recourse::mcp_decision_test {
namespace {

using Kind = McpRequest::Kind;

const std::string kPolicy = R"(
backends:
  files: { url: "http://files:3000/mcp", protocol: mcp, trust_annotations: true }
  other: { url: "http://other:3000/mcp", protocol: mcp }
tools:
  read: { match: tools/call files read_file, effect: read }
  write: { match: "tools/call files *_file", effect: write, reason: r }
)";

McpRequest Request(Kind kind, std::string tool = {}) {
  McpRequest request;
  request.kind = kind;
  request.method = kind == Kind::kToolCall ? "tools/call" : "m";
  request.tool = std::move(tool);
  return request;
}

class McpDecisionTest : public testing::Test {
 protected:
  McpDecision Of(std::vector<McpRequest> requests, std::optional<ToolFacts> facts = {},
                 std::string rules = {}, std::size_t backend = 0) {
    auto loaded = LoadPolicyText("policy.yaml", "version: 1\n" + rules + kPolicy);
    policy_ = std::move(loaded.policy);
    EXPECT_TRUE(policy_);
    return DecideMcp(*policy_, policy_->backends[backend], requests, facts);
  }
  std::shared_ptr<const Policy> policy_;
};

TEST_F(McpDecisionTest, ThePolicysNameComesBeforeAGlob) {
  EXPECT_EQ(Of({Request(Kind::kToolCall, "read_file")}).tool->name, "read");
  EXPECT_EQ(Of({Request(Kind::kToolCall, "read_file")}).effect, Effect::kRead);
  const McpDecision other = Of({Request(Kind::kToolCall, "drop_file")}, ToolFacts{true, false});
  EXPECT_EQ(other.tool->name, "write");
  EXPECT_EQ(other.effect, Effect::kWrite);
}

TEST_F(McpDecisionTest, AToolThatNobodyNamesIsAWriteUnlessATrustedServerSaysOtherwise) {
  const auto call = [&](std::optional<ToolFacts> facts, std::size_t backend) {
    return Of({Request(Kind::kToolCall, "x")}, facts, {}, backend).effect;
  };
  EXPECT_EQ(call({}, 0), Effect::kWrite);
  EXPECT_EQ(call(ToolFacts{true, false, false}, 0), Effect::kRead);
  EXPECT_EQ(call(ToolFacts{true, false, true}, 0), Effect::kWrite);
  EXPECT_EQ(call(ToolFacts{false, false, false}, 0), Effect::kWrite);
  EXPECT_EQ(call(ToolFacts{true, false, false}, 1), Effect::kWrite);
}

TEST_F(McpDecisionTest, WhatThePolicyDoesNotListMayBeDenied) {
  const std::string rules = "unlisted: { reads: deny, writes: deny }\n";
  EXPECT_TRUE(Of({Request(Kind::kToolCall, "x")}, {}, rules).is_denied);
  EXPECT_TRUE(Of({Request(Kind::kToolCall, "x")}, ToolFacts{true}, rules).is_denied);
  EXPECT_TRUE(Of({Request(Kind::kWrite)}, {}, rules).is_denied);
  EXPECT_FALSE(Of({Request(Kind::kToolCall, "read_file")}, {}, rules).is_denied);
  EXPECT_FALSE(Of({Request(Kind::kToolCall, "a_file")}, {}, rules).is_denied);
  // Without them no client gets as far as to call a tool.
  EXPECT_FALSE(Of({Request(Kind::kRead)}, {}, rules).is_denied);
  EXPECT_FALSE(Of({Request(Kind::kPass)}, {}, rules).is_denied);
}

TEST_F(McpDecisionTest, OnlyReadsAreSentASecondTime) {
  EXPECT_FALSE(Of({Request(Kind::kRead)}).passes_once);
  EXPECT_TRUE(Of({Request(Kind::kPass)}).passes_once);
  EXPECT_TRUE(Of({Request(Kind::kRead), Request(Kind::kPass)}).passes_once);
  EXPECT_EQ(Of({Request(Kind::kRead), Request(Kind::kRead)}).effect, Effect::kRead);
  EXPECT_EQ(Of({Request(Kind::kWrite)}).effect, Effect::kWrite);
}

TEST(McpMethodLabel, IsOneOfAFewWords) {
  EXPECT_EQ(McpMethodLabel("tools/call"), "tools/call");
  EXPECT_EQ(McpMethodLabel("tools/call\",\"x"), "other");
  EXPECT_EQ(McpMethodLabel(""), "response");
}

}  // namespace
}  // namespace recourse::mcp_decision_test
