#include "filters/mcp/mcp_decision.h"

#include <gtest/gtest.h>

#include "filters/mcp/mcp_codec.h"
#include "policy/language/loader.h"

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

// Spans live longer than a request, and hold nothing that it said.
TEST_F(McpDecisionTest, ANameIsShownAsThePolicySpellsItOut) {
  const McpDecision named = Of({Request(Kind::kToolCall, "read_file")});
  const std::string said = "read_file";
  const std::string_view shown = McpCodec().Spelled(*named.tool, said);
  EXPECT_EQ(shown, "read_file");
  EXPECT_EQ(shown.data(), named.tool->mcp_names.front().data());
  const McpDecision by_glob = Of({Request(Kind::kToolCall, "drop_file")});
  EXPECT_EQ(McpCodec().Spelled(*by_glob.tool, "drop_file"), "");
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

TEST_F(McpDecisionTest, ANameThatSomeServerTakesForAStricterToolsIsRefused) {
  const std::string rules = R"(
backends: { shop: { url: "http://shop:1/mcp", protocol: mcp } }
tools:
  drop: { match: tools/call shop drop_table, effect: write, approval: { by: [ a ] } }
  wipe: { match: "tools/call shop wipe_*", effect: write, approval: { by: [ a ] } }
  look: { match: [ "tools/call shop *_table", "tools/call shop Wipe_log" ], effect: read }
)";
  auto loaded = LoadPolicyText("p.yaml", "version: 1" + rules);
  ASSERT_TRUE(loaded.policy);
  const auto objection = [&](const std::string& name) {
    return DecideMcp(*loaded.policy, loaded.policy->backends[0], {Request(Kind::kToolCall, name)},
                     {})
        .objection;
  };
  const std::string nul("\0", 1);
  for (const std::string& name :
       {std::string("Drop_Table"), std::string("drop-table"), std::string(" drop_table"),
        std::string("drop table"), std::string("dropTable"), "drop_table" + nul + "x",
        std::string("drop\xe2\x80\x8b_table"), std::string("functions.drop_table"),
        std::string("mcp__shop__drop_table"), std::string("\xef\xbd\x84rop_table"),
        std::string("WIPE_all"), std::string("wipe-all"), std::string("functions.wipe_all")}) {
    EXPECT_NE(objection(name).find("stricter rule of"), std::string::npos) << name;
  }
  EXPECT_NE(objection("Drop_Table").find("'Drop_Table' for 'drop_table'"), std::string::npos);
  for (const char* name :
       {"drop_table", "wipe_all", "read_table", "Wipe_log", "unknown", "wiper"}) {
    EXPECT_EQ(objection(name), "") << name;
  }
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
