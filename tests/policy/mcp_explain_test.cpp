// What `recourse policy explain | test | replay` say about calls of MCP tools.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "policy/explain/explain.h"
#include "policy/explain/replay.h"
#include "tests/policy/policy_builder.h"

namespace recourse::mcp_explain_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPolicy = R"(
backends:
  files: { url: "http://files:3000/mcp", protocol: mcp }
  shop: { url: "http://shop" }
tools:
  look: { match: "tools/call files get_*", effect: read }
  create:
    match: tools/call files create_order
    effect: write
    identity: body#/ref
    approval: { by: ops, when: body#/amount > 100 }
    undo:
      call: cancel_order
      arguments: { id: "{external_ref}" }
      done_when: answer.body#/gone == true
  note: { match: tools/call files add_note, effect: write, reason: r, on_error: not_executed }
)";

Explanation Of(const Policy& policy, const std::string& text, const std::string& body = "") {
  ExplainedCall call;
  EXPECT_TRUE(ParseCall(text, call)) << text;
  call.body = body;
  return Explain(policy, call);
}

std::string Lines(const Policy& policy, const Explanation& explained) {
  std::string out;
  for (const auto& [name, text] : Describe(policy, explained)) out += name + ": " + text + "\n";
  return out;
}

TEST(McpExplainTest, ACallIsNamedByItsToolAndItsBodyIsTheArguments) {
  const auto policy = LoadGood(kPolicy);
  const auto create = Of(*policy, "tools/call files create_order", R"({"ref":"a1","amount":500})");
  EXPECT_EQ(create.refused, "");
  EXPECT_EQ(create.tool, policy->FindTool("create"));
  EXPECT_THAT(create.approval, HasSubstr("body#/amount > 100"));
  const std::string lines = Lines(*policy, create);
  EXPECT_THAT(lines, HasSubstr("backend: files (MCP, http://files:3000/mcp)"));
  EXPECT_THAT(lines, HasSubstr("call: tools/call create_order"));
  EXPECT_THAT(lines, HasSubstr("body#/ref              identity: \"a1\""));
  EXPECT_THAT(lines,
              HasSubstr("fingerprint: the name of the MCP tool and its arguments; the same"));
  EXPECT_THAT(lines, HasSubstr(R"(undo: tools/call cancel_order {"id":"{external_ref}"})"));
  EXPECT_THAT(lines, HasSubstr("done: a result without isError"));
  EXPECT_THAT(lines, HasSubstr("and only when answer.body#/gone == true"));
  const auto read = Of(*policy, "tools/call files get_order");
  EXPECT_EQ(read.effect, Effect::kRead);
  EXPECT_TRUE(read.key.empty());
  const auto note = Of(*policy, "tools/call files add_note", R"({"text":"x"})");
  EXPECT_THAT(Lines(*policy, note), HasSubstr("on_error: an answer with isError proves that"));
  EXPECT_THAT(Lines(*policy, note), HasSubstr("args                   the name of the MCP tool"));
}

TEST(McpExplainTest, WhatNoToolMatchesIsAWrite) {
  const auto unlisted = Of(*LoadGood(kPolicy), "tools/call files get");
  EXPECT_EQ(unlisted.effect, Effect::kWrite);
  EXPECT_FALSE(unlisted.key.empty());
  EXPECT_THAT(unlisted.reason,
              HasSubstr("so it is one of the writes, and `unlisted: writes: guard"));
  const auto denied =
      Of(*LoadGood(std::string("unlisted: { writes: deny }") + kPolicy), "tools/call files get");
  EXPECT_EQ(denied.refused, "denied");
}

TEST(McpExplainTest, WhatIsNoCallOfAToolIsRefusedWithAReason) {
  const auto policy = LoadGood(kPolicy);
  EXPECT_THAT(Of(*policy, "tools/call shop get_order").reason, HasSubstr("is no MCP server"));
  EXPECT_EQ(Of(*policy, "tools/call nobody get_order").refused, "unknown-backend");
  const Explanation twin = Of(*policy, "tools/call files Create-Order", "{}");
  EXPECT_EQ(twin.refused, "malformed-request");
  EXPECT_THAT(twin.reason,
              HasSubstr("some servers take the tool 'Create-Order' for 'create_order'"));
  EXPECT_THAT(Of(*policy, "tools/call files create_order", "[1]").reason,
              HasSubstr("the arguments are no JSON object"));
  ExplainedCall call;
  EXPECT_FALSE(ParseCall("tools/call files", call));
  EXPECT_FALSE(ParseCall("tools/call files ", call));
  EXPECT_FALSE(ParseCall("tools/list files /x", call));
}

TEST(McpExplainTest, TheEndpointIsExplainedByItsBody) {
  const auto policy = LoadGood(kPolicy);
  const auto call =
      Of(*policy, "POST http://files:3000/mcp",
         R"({"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"create_order",)"
         R"("arguments":{"ref":"a1"}}})");
  EXPECT_EQ(call.tool, policy->FindTool("create"));
  EXPECT_THAT(Lines(*policy, call), HasSubstr("identity: \"a1\""));
  EXPECT_THAT(Of(*policy, "POST http://files:3000/mcp").reason,
              HasSubstr("say \"tools/call files NAME\""));
  EXPECT_EQ(Of(*policy, "DELETE files /mcp").effect, Effect::kRead);
  EXPECT_EQ(Of(*policy, "POST files /MCP").refused, "ambiguous-path");
  EXPECT_EQ(Of(*policy, "POST files /messages").refused, "denied");
  EXPECT_THAT(Of(*policy, "POST files /messages").reason, HasSubstr("another door to its tools"));
  EXPECT_EQ(Of(*policy, "GET files /.well-known/x").effect, Effect::kRead);
}

class McpPolicyFileTest : public ::testing::Test {
 protected:
  McpPolicyFileTest() {
    std::string name = (std::filesystem::temp_directory_path() / "recourse-mcp-XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~McpPolicyFileTest() override { std::filesystem::remove_all(dir_); }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name) << text;
    return dir_ + "/" + name;
  }
  std::string Replay(const std::string& exported) {
    std::ostringstream out;
    RunPolicyReplay(Write("export", exported),
                    Write("p.yaml", std::string("version: 1\n") + kPolicy), "", out, out);
    return out.str();
  }
  std::string dir_;
};

TEST_F(McpPolicyFileTest, TestsCallToolsByName) {
  const std::string path = Write("p.yaml", std::string("version: 1\n") + kPolicy + R"(
tests:
  - call: tools/call files create_order
    body: { ref: a1, amount: 7 }
    expect: { tool: create, effect: write, approval: false, key: [ caller, body#/ref ] }
  - { call: tools/call files create_order, body: { amount: 101 }, expect: { approval: true } }
  - { call: tools/call files get_order, expect: { tool: look, effect: read } }
  - { call: tools/call files drop, expect: { tool: unlisted, effect: write } }
  - { call: tools/call files get_order, expect: { tool: create } }
)");
  std::ostringstream out;
  EXPECT_EQ(RunPolicyTest(path, out), 1);
  EXPECT_THAT(out.str(), HasSubstr("ok     line 20: tools/call files create_order\n"));
  EXPECT_THAT(out.str(), HasSubstr("get_order: expected tool: create, got look"));
  EXPECT_THAT(out.str(), HasSubstr("5 tests, 1 failed"));
}

TEST_F(McpPolicyFileTest, PastCallsAreJudgedByTheNameOfTheirTool) {
  const auto event = [](int number, const std::string& tool, const std::string& call) {
    return R"({"event_id":)" + std::to_string(number) + R"(,"operation":)" +
           std::to_string(number) + R"(,"tool":")" + tool + R"(","backend":"files","caller":"c",)" +
           call + "}\n";
  };
  const auto named = [](const std::string& name) {
    return R"("method":"tools/call","path":")" + name + '"';
  };
  const std::string told =
      Replay(event(1, "create", named("create_order")) + event(2, "look", named("get_order")) +
             event(3, "unlisted.files", R"("method":"POST","path":"/mcp")") +
             event(4, "note", named("get_x")) + event(5, "unlisted.files", named("drop")));
  EXPECT_THAT(told, HasSubstr("unknown       1  tool create: key cannot be recomputed: arguments"));
  EXPECT_THAT(told, HasSubstr("tool look: it would be a read"));
  EXPECT_THAT(told, HasSubstr("unlisted write: key cannot be recomputed: the messages to an MCP"));
  EXPECT_THAT(told, HasSubstr("tool note: it would be tool look"));
  EXPECT_THAT(told, HasSubstr("5 past write calls: 2 classed otherwise"));
}

TEST(McpTestsWordTest, ATestNamesOneToolOfAnMcpServer) {
  const auto problem = [](const std::string& test) {
    return ProblemsOf(LoadPolicyText(
        "p.yaml", std::string("version: 1\n") + kPolicy + "tests: [ { " + test + " } ]\n"));
  };
  const std::string expect = ", expect: { effect: write }";
  EXPECT_THAT(problem("call: tools/call shop add" + expect), HasSubstr("shop is no MCP server"));
  EXPECT_THAT(problem("call: \"tools/call files add_*\"" + expect),
              HasSubstr("one tool is called"));
  EXPECT_THAT(problem("call: tools/call files add, body: [ 1 ]" + expect),
              HasSubstr("tests[0].body: a map of the tool's arguments"));
  EXPECT_THAT(problem("call: tools/call files add" + expect), Not(HasSubstr("error")));
}

}  // namespace
}  // namespace recourse::mcp_explain_test
