// Calls of MCP tools through the whole chain, against a server of a few tools.
#include <gtest/gtest.h>

#include "filters/approval/approved_call.h"
#include "filters/mcp/mcp_answer.h"
#include "filters/mcp/mcp_request.h"
#include "tests/support/world.h"

namespace recourse::mcp_chain_test {
namespace {

constexpr const char* kMcpPolicy = R"(
version: 1
unlisted: { reads: pass, writes: guard }
flow_rules: { agents_may: [ cancel ] }
backends:
  shop: { url: "http://shop.test:8080/mcp", hosts: [ shop.test ], protocol: mcp }
tools:
  orders.get: { match: tools/call shop get_order, effect: read }
  orders.create:
    match: tools/call shop create_order
    effect: write
    identity: body#/ref
    external_ref: answer.body#/id
    settle:
      call: get_order
      arguments: { ref: "{body#/ref}" }
      happened: answer.body#/id
      absent_after: 5s
    undo: { call: cancel_order, arguments: { id: "{external_ref}" } }
  orders.cancel: { match: tools/call shop cancel_order, effect: write, undo: none, reason: test }
  notes: { match: "tools/call shop note_*", effect: write, undo: none, reason: test }
  gated:
    match: tools/call shop pay
    effect: write
    undo: none
    reason: test
    approval: { by: [ finance ] }
)";

const Headers kLegacy{{"Mcp-Session-Id", "s1"}, {"MCP-Protocol-Version", "2025-11-25"}};
const Headers kModern{{"MCP-Protocol-Version", "2026-07-28"}, {"Mcp-Method", "tools/call"}};

CallSpec Tool(const std::string& name, const std::string& arguments, const std::string& id = "1",
              const std::string& beside = "") {
  CallSpec call;
  call.host = "shop.test";
  call.target = "/mcp";
  call.headers = kLegacy;
  call.body = R"({"jsonrpc":"2.0","id":)" + id + R"(,"method":"tools/call","params":{"name":")" +
              name + R"(","arguments":)" + arguments + beside + "}}";
  return call;
}
CallSpec Create(const std::string& id = "1", const std::string& beside = "") {
  return Tool("create_order", R"({"ref":"r1"})", id, beside);
}

std::string ArgumentsOf(const HttpRequest& request) {
  const auto read = ReadMcpRequest(request.headers, request.body);
  return read ? read->front().tool + CanonicalJson(read->front().arguments) : request.method;
}

// A server that executes what it is asked, and counts.
class Shop : public World {
 public:
  Shop() : World(kMcpPolicy) {
    upstream.decide = [this](const HttpRequest& request) {
      const auto read = ReadMcpRequest(request.headers, request.body);
      if (!read || read->size() != 1 || read->front().id.empty()) return Respond(202, "");
      const McpRequest& asked = read->front();
      ++executed[asked.tool];
      if (const auto at = instead.find(asked.tool); at != instead.end()) {
        Step step = std::move(at->second);
        instead.erase(at);
        return step;
      }
      return Result(asked.id, R"({"id":"o)" + std::to_string(executed[asked.tool]) + "\"}");
    };
  }
  static Step Result(const std::string& id, const std::string& output) {
    return Respond(200, R"({"jsonrpc":"2.0","id":)" + id + R"(,"result":{"content":[],)" +
                            R"("structuredContent":)" + output + "}}");
  }
  // How the next call of a tool ends.
  std::multimap<std::string, Step> instead;
  std::map<std::string, int> executed;
};

Step Events(const std::string& text, bool complete = true) {
  Step step = Respond(200, text, {{"Content-Type", "text/event-stream"}});
  step.answer.body_complete = complete;
  return step;
}

TEST(McpChainTest, ARepeatUnderAnotherIdGetsTheSameAnswer) {
  Shop shop;
  const Told first = shop.Call(Create("1", R"(,"_meta":{"progressToken":1})"));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.body,
            R"({"jsonrpc":"2.0","result":{"content":[],"structuredContent":{"id":"o1"}}})");
  const Told again = shop.Call(
      Create("\"b\"", R"(,"_meta":{"progressToken":2},"requestState":"x","inputResponses":{})"));
  EXPECT_TRUE(again.replayed);
  EXPECT_EQ(again.body, first.body);
  EXPECT_EQ(shop.executed["create_order"], 1);
  EXPECT_EQ(shop.Events().back().external_ref, "o1");
}

TEST(McpChainTest, AnEventNamesTheToolThatIsCalled) {
  Shop shop;
  const auto last = [&] { return shop.Events().back().method + ' ' + shop.Events().back().path; };
  (void)shop.Call(Create());
  EXPECT_EQ(last(), "tools/call create_order");
  (void)shop.Call(Tool("no_such.tool", "{}"));
  EXPECT_EQ(last(), "tools/call no_such.tool");
  (void)shop.Call(Tool("bad\\n\\u001b[2Jname " + std::string(200, 'x'), "{}"));
  EXPECT_EQ(last(), "tools/call bad???2Jname?" + std::string(115, 'x'));
  const Told other = shop.Call(Tool("create_order", R"({"ref":"r1","more":1})", "2"));
  EXPECT_NE(other.body.find("tools/call create_order (event "), std::string::npos) << other.body;
}

TEST(McpChainTest, ToolsOfOneGlobAreNoRepeatsOfEachOther) {
  Shop shop;
  (void)shop.Call(Tool("note_add", "{}"));
  (void)shop.Call(Tool("note_drop", "{}"));
  (void)shop.Call(Tool("other", "{}"));
  (void)shop.Call(Tool("another", "{}"));
  EXPECT_TRUE(shop.Call(Tool("note_add", "{}", "2")).replayed);
  EXPECT_TRUE(shop.Call(Tool("other", "{ }", "3")).replayed);
  EXPECT_EQ(shop.executed, (std::map<std::string, int>{
                               {"note_add", 1}, {"note_drop", 1}, {"other", 1}, {"another", 1}}));
}

TEST(McpChainTest, AnotherMethodIsKeyedByItsParams) {
  Shop shop;
  const auto cancel = [](const std::string& task) {
    CallSpec call = Create();
    call.body = R"({"jsonrpc":"2.0","id":1,"method":"tasks/cancel","params":{"taskId":")" + task +
                R"(","_meta":{"x":1}}})";
    return call;
  };
  (void)shop.Call(cancel("a"));
  (void)shop.Call(cancel("b"));
  EXPECT_TRUE(shop.Call(cancel("a")).replayed);
  EXPECT_EQ(shop.upstream.writes.size(), 2u);
}

TEST(McpChainTest, MetaNamesTheIntent) {
  Shop shop;
  const auto note = [](const std::string& text, const std::string& intent) {
    return Tool("note_add", R"({"text":")" + text + "\"}", "1",
                R"(,"_meta":{"dev.recourse/intent":")" + intent + "\"}");
  };
  EXPECT_EQ(shop.Call(note("a", "i1")).status, 200);
  EXPECT_EQ(shop.Call(note("a", "i2")).status, 200);
  EXPECT_EQ(shop.executed["note_add"], 2);
  EXPECT_EQ(shop.Call(note("b", "i1")).error, ErrorCode::kKeyReused);
  CallSpec both = note("c", "i3");
  both.headers.emplace_back("Recourse-Intent", "i4");
  EXPECT_EQ(shop.Call(both).error, ErrorCode::kInvalidKey);
  EXPECT_EQ(shop.Call(note("d", std::string(256, 'x'))).error, ErrorCode::kInvalidKey);
}

TEST(McpChainTest, TheTraceOfTheMessageComesBeforeThatOfTheField) {
  Shop shop;
  const auto under = [](const std::string& trace) {
    return Tool("note_add", "{}", "1", R"(,"_meta":{"traceparent":")" + Traceparent(trace) + "\"}");
  };
  (void)shop.Call(under(kTraceB));
  EXPECT_EQ(shop.Events().back().trace_id, kTraceB);
  CallSpec other = under(kTraceB);
  other.trace = "";
  EXPECT_TRUE(shop.Call(other).replayed);
}

TEST(McpChainTest, AToolsFailureIsPassedOnOnceAndUnknownAfterwards) {
  Shop shop;
  shop.instead.emplace("note_add",
                       Respond(200, R"({"jsonrpc":"2.0","id":1,"result":{"isError":true,)"
                                    R"("content":[{"type":"text","text":"disk full"}]}})"));
  const Told first = shop.Call(Tool("note_add", "{}"));
  EXPECT_FALSE(first.error);
  EXPECT_NE(first.body.find("disk full"), std::string::npos);
  EXPECT_EQ(shop.Call(Tool("note_add", "{}", "2")).error, ErrorCode::kOutcomeUnknown);
  EXPECT_EQ(shop.executed["note_add"], 1);
}

TEST(McpChainTest, WhatProvesThatNothingRanMayBeCalledAgainAtOnce) {
  for (const Step& step :
       {Respond(404, "no session"), Respond(401, ""),
        Respond(400, R"({"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"m"}})"),
        Respond(200, R"({"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}})")}) {
    Shop shop;
    shop.instead.emplace("note_add", step);
    const Told first = shop.Call(Tool("note_add", "{}"));
    EXPECT_EQ(first.status, step.answer.response.status);
    EXPECT_FALSE(first.error);
    const Told again = shop.Call(Tool("note_add", "{}", "1"));
    EXPECT_EQ(again.status, 200) << step.answer.response.body;
    EXPECT_FALSE(again.replayed);
    EXPECT_EQ(shop.executed["note_add"], 2);
  }
}

TEST(McpChainTest, ATaskIsPassedOnAndReplayedAsItIs) {
  Shop shop;
  shop.instead.emplace("note_add", Respond(200, R"({"jsonrpc":"2.0","id":1,"result":)"
                                                R"({"resultType":"task","taskId":"t1"}})"));
  const Told first = shop.Call(Tool("note_add", "{}"));
  EXPECT_FALSE(first.error);
  EXPECT_EQ(first.Field("Recourse-Outcome"), "pending");
  const Told again = shop.Call(Tool("note_add", "{}", "2"));
  EXPECT_FALSE(again.error);
  EXPECT_EQ(again.body, first.body);
  EXPECT_EQ(shop.executed["note_add"], 1);
}

TEST(McpChainTest, WhatComesBeforeTheAnswerIsPassedOnAndNeverReplayed) {
  struct Heard final : InterimSink {
    Task<void> Pass(std::string_view event) override {
      all += event;
      co_return;
    }
    std::string all;
  } heard;
  Shop shop;
  const std::string progress =
      "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n";
  shop.instead.emplace("note_add",
                       Events(progress + "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"));
  CallSpec call = Tool("note_add", "{}");
  call.interim = &heard;
  EXPECT_EQ(shop.Call(call).body, R"({"jsonrpc":"2.0","result":{}})");
  EXPECT_EQ(heard.all, progress);
  EXPECT_TRUE(shop.Call(call).replayed);
  EXPECT_EQ(heard.all, progress);
}

TEST(McpChainTest, AnUnknownOutcomeIsSettledByACallOfTheServersTool) {
  Shop shop;
  shop.StartSettler();
  shop.instead.emplace("create_order", Events("data: {}\n\n", false));
  EXPECT_EQ(shop.Call(Create()).error, ErrorCode::kOutcomeUnknown);
  shop.loop.RunFor(Millis(20'000));
  const Event settled = shop.Events().back();
  EXPECT_EQ(settled.phase, Phase::kSucceeded);
  EXPECT_EQ(settled.external_ref, "o1");
  EXPECT_GE(shop.executed["get_order"], 1);
  EXPECT_EQ(shop.executed["create_order"], 1);
  const HttpRequest& probe = shop.upstream.writes.back().request;
  EXPECT_EQ(ArgumentsOf(probe), R"(get_order{"ref":"r1"})");
  EXPECT_EQ(*FindHeader(probe.headers, "Mcp-Session-Id"), "s1");
  const Told again = shop.Call(Create("9"));
  EXPECT_TRUE(again.replayed);
  const auto message = ParseJson(again.body);
  ASSERT_TRUE(message && IsMcpResponse(*message, {})) << again.body;
  EXPECT_EQ(AtPointer(*message, "/result/content/0/text")->text,
            "It was executed; its reference is o1. Its own answer was lost. Do not repeat it.");
}

TEST(McpChainTest, AStepIsUndoneByACallInBothEras) {
  for (const bool is_modern : {false, true}) {
    Shop shop;
    shop.StartFlows();
    CallSpec call = Create();
    call.headers = is_modern ? kModern : kLegacy;
    ASSERT_EQ(shop.Call(call).status, 200);
    CallSpec cancel = Tool("note_add", "{}");
    cancel.headers.emplace_back("Recourse-Flow", "cancel");
    EXPECT_EQ(shop.Call(cancel).status, 202);
    shop.loop.RunFor(Millis(5'000));
    EXPECT_EQ(shop.executed["cancel_order"], 1);
    const HttpRequest& undo = shop.upstream.writes.back().request;
    EXPECT_EQ(ArgumentsOf(undo), R"(cancel_order{"id":"o1"})");
    EXPECT_EQ(FindHeader(undo.headers, "Mcp-Session-Id") != nullptr, !is_modern);
    EXPECT_EQ(FindHeader(undo.headers, "Mcp-Name") != nullptr, is_modern);
    EXPECT_EQ(ReadMcpRequest(undo.headers, undo.body)->front().era,
              is_modern ? McpEra::kModern : McpEra::kLegacy);
    bool is_compensated = false;
    for (const Event& event : shop.Events()) {
      is_compensated = is_compensated || event.phase == Phase::kCompensated;
    }
    EXPECT_TRUE(is_compensated);
  }
}

TEST(McpChainTest, AnApprovedCallIsSentOnceUnderAnIdOfOurs) {
  Shop shop;
  shop.StartApprovals();
  const auto held = shop.Start(Tool("pay", R"({"amount":7})"));
  shop.loop.RunFor(Millis(500));
  EXPECT_FALSE(held->done);
  const auto claims = shop.loop.Run(shop.ledger.Claims(0, 10, shop.loop.executor()));
  ASSERT_TRUE(claims && claims->size() == 1 && claims->front().event.request);
  const Event& waiting = claims->front().event;
  const std::string& body = waiting.request->body;
  const auto edited = [&](const std::string& from, const std::string& to) {
    std::string other = body;
    other.replace(other.find(from), from.size(), to);
    return ObjectionToEdit(waiting, other, *shop.policy);
  };
  EXPECT_EQ(edited(R"({"amount":7})", R"({"amount":5,"note":"less"})"), "");
  EXPECT_NE(edited(R"("pay")", R"("create_order")"), "");
  EXPECT_NE(edited(R"("id":1)", R"("id":2)"), "");
  EXPECT_NE(edited(R"("arguments":{"amount":7})", R"("arguments":[])"), "");
  EXPECT_NE(edited(R"({"amount":7})", R"({"amount":7,"amount":8})"), "");
  const auto decided =
      shop.loop.Run(shop.approvals.DecideNow({.kind = ApprovalOrder::Kind::kApprove,
                                              .operation = waiting.operation,
                                              .by = {"ann", {"finance"}},
                                              .digest = waiting.approval->digest,
                                              .reason = "seen"}));
  ASSERT_TRUE(decided);
  shop.loop.RunFor(Millis(5'000));
  ASSERT_TRUE(held->done);
  EXPECT_EQ(held->status, 200);
  EXPECT_EQ(shop.executed["pay"], 1);
  EXPECT_EQ(ArgumentsOf(shop.upstream.writes.back().request), R"(pay{"amount":7e0})");
  EXPECT_NE(shop.upstream.writes.back().request.body.find("recourse-"), std::string::npos);
  EXPECT_EQ(shop.Call(Tool("pay", R"({"amount":7})", "8")).status, 200);
  EXPECT_EQ(shop.executed["pay"], 1);
}

}  // namespace
}  // namespace recourse::mcp_chain_test
