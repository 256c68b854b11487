#include "filters/mcp/mcp_request.h"

#include <gtest/gtest.h>

#include "proxy/base/message_limits.h"

namespace recourse::mcp_request_test {
namespace {

using Kind = McpRequest::Kind;

const Headers kLegacy{{"mcp-session-id", "s-1"}, {"mcp-protocol-version", "2025-11-25"}};

Headers Modern(std::string name = "create_refund") {
  return {{"MCP-Protocol-Version", "2026-07-28"},
          {"Mcp-Method", "tools/call"},
          {"Mcp-Name", std::move(name)}};
}

std::string ModernCall(std::string_view name = "create_refund") {
  return R"({"jsonrpc":"2.0","id":"a-1","method":"tools/call","params":{"name":")" +
         std::string(name) + R"(","arguments":{"order":"o1"},"_meta":{)" +
         R"("io.modelcontextprotocol/protocolVersion":"2026-07-28",)" +
         R"("io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},)" +
         R"("io.modelcontextprotocol/clientCapabilities":{}}}})";
}

McpRequest Read(const Headers& headers, std::string_view body) {
  auto requests = ReadMcpRequest(headers, body);
  EXPECT_TRUE(requests) << body;
  if (!requests || requests->size() != 1) return {};
  return std::move(requests->front());
}

int CodeOf(const Headers& headers, std::string_view body) {
  const auto requests = ReadMcpRequest(headers, body);
  if (requests) return 0;
  EXPECT_EQ(requests.error().status, 400);
  EXPECT_FALSE(requests.error().message.empty());
  return requests.error().code;
}

TEST(McpRequestTest, ALegacyCallIsReadWithItsArguments) {
  const McpRequest call =
      Read(kLegacy,
           R"({"method":"tools/call","params":{"name":"get-sum","arguments":{"a":9007199254740993,)"
           R"("b":1.0}},"jsonrpc":"2.0","id":3})");
  EXPECT_EQ(call.kind, Kind::kToolCall);
  EXPECT_EQ(call.era, McpEra::kLegacy);
  EXPECT_EQ(call.id, "3");
  EXPECT_EQ(call.method, "tools/call");
  EXPECT_EQ(call.tool, "get-sum");
  EXPECT_EQ(CanonicalJson(call.arguments), R"({"a":9007199254740993e0,"b":1e0})");
}

TEST(McpRequestTest, AMethodThatServersTakeForAnotherIsRefused) {
  const auto code_of = [](const std::string& method) {
    return CodeOf(kLegacy, R"({"jsonrpc":"2.0","id":1,"method":")" + method +
                               R"(","params":{"name":"pay","arguments":{}}})");
  };
  for (const char* method :
       {"tools/call\\u0000", "tools/call ", "Tools/call", "tools/ca\\u200bll", "tools.call",
        "tools//call", "tools/call\\n", "resources/READ", "\\uff54ools/call"}) {
    EXPECT_EQ(code_of(method), -32600) << method;
  }
  for (const char* method :
       {"tools/call", "tools/list", "acme/call", "tasks/update", "tools/calls"}) {
    EXPECT_EQ(code_of(method), 0) << method;
  }
}

TEST(McpRequestTest, AModernCallTellsItsMetaToo) {
  std::string body = ModernCall();
  body.insert(body.find("\"io.model"),
              R"("traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",)"
              R"("dev.recourse/intent":"refund-7",)");
  body.insert(body.find("\"_meta\""), R"("requestState":"st",)");
  const McpRequest call = Read(Modern(), body);
  EXPECT_EQ(call.era, McpEra::kModern);
  EXPECT_EQ(call.id, "\"a-1\"");
  EXPECT_EQ(call.intent, "refund-7");
  EXPECT_EQ(call.request_state, "st");
  EXPECT_EQ(call.traceparent, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
}

TEST(McpRequestTest, TheMethodSaysWhatKindOfMessageItIs) {
  const auto kind = [](std::string_view method) {
    return Read(kLegacy, R"({"jsonrpc":"2.0","id":1,"method":")" + std::string(method) + "\"}")
        .kind;
  };
  for (const char* method :
       {"initialize", "ping", "tools/list", "resources/read", "prompts/get", "tasks/get",
        "server/discover", "completion/complete", "subscriptions/listen", "logging/setLevel"}) {
    EXPECT_EQ(kind(method), Kind::kRead) << method;
  }
  for (const char* method : {"tasks/update", "tasks/cancel", "orders/list", "TOOLS/ADD", "x"}) {
    EXPECT_EQ(kind(method), Kind::kWrite) << method;
  }
  EXPECT_EQ(Read(kLegacy, R"({"jsonrpc":"2.0","method":"notifications/initialized"})").kind,
            Kind::kPass);
  const McpRequest response = Read(kLegacy, R"({"jsonrpc":"2.0","id":4,"result":{"roots":[]}})");
  EXPECT_EQ(response.kind, Kind::kPass);
  EXPECT_EQ(response.method, "");
}

TEST(McpRequestTest, WhatHasTwoReadingsIsRefused) {
  constexpr int kInvalid = -32600;
  // Read from the front, from the back, and by readers that take either case.
  for (
      const char* body : {
          R"({"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"})",
          R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","n\u0061me":"b"}})",
          R"({"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call"})",
          R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","NAME":"b"}})",
          R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Arguments":{}}})",
          "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"param\xc5\xbf\":{}}",
          R"({"jsonrpc":"2.0","id":1,"method":"tools/list","result":{}})",
      }) {
    EXPECT_EQ(CodeOf(kLegacy, body), kInvalid) << body;
  }
}

TEST(McpRequestTest, FieldsMayNotGiveTheBodyAnotherReading) {
  const auto code = [](Headers headers) { return CodeOf(headers, ModernCall()); };
  for (const char* const type :
       {"application/json", "application/json; charset=utf-8", "Application/JSON;Charset=\"UTF-8\"",
        "application/json; charset=utf8", "text/plain"}) {
    EXPECT_EQ(code({{"content-type", type}}), 0) << type;
  }
  EXPECT_EQ(code({{"Content-Encoding", "Identity"}}), 0);
  for (const char* const type :
       {"application/json; charset=utf-7", "application/json; charset=\"UTF-7\"",
        "application/json; charset=utf-8; charset=utf-7", "application/json; charset*=utf-7''x",
        "application/json; charset = utf-7", "application/json; charset=utf-16le"}) {
    EXPECT_EQ(code({{"Content-Type", type}}), -32600) << type;
  }
  EXPECT_EQ(code({{"Content-Type", "application/json"}, {"content-type", "application/json"}}),
            -32600);
  for (const char* const coding : {"br", "gzip", "identity, br"}) {
    EXPECT_EQ(code({{"Content-Encoding", coding}}), -32600) << coding;
  }
  EXPECT_EQ(code({{"Content-Encoding", "identity"}, {"Content-Encoding", "br"}}), -32600);
}

TEST(McpRequestTest, WhatIsNoMessageIsRefused) {
  for (const char* body : {"", "{", "nonsense", "{\"a\":\"\\ud800\"}", "\xef\xbb\xbf{}"}) {
    EXPECT_EQ(CodeOf(kLegacy, body), -32700) << body;
  }
  for (const char* body : {
           "7",
           "[]",
           "[7]",
           "{}",
           R"({"id":1,"method":"ping"})",
           R"({"jsonrpc":"1.0","id":1,"method":"ping"})",
           R"({"jsonrpc":"2.0","id":null,"method":"ping"})",
           R"({"jsonrpc":"2.0","id":{"a":1},"method":"ping"})",
           R"({"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}})",
           R"({"jsonrpc":"2.0","id":1,"method":7})",
           R"({"jsonrpc":"2.0","id":1,"method":"tools/call"})",
           R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":["a"]})",
           R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":""}})",
           R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["a"]}})",
           R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":[]}})",
           R"({"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"dev.recourse/intent":7}}})",
       }) {
    EXPECT_EQ(CodeOf(kLegacy, body), -32600) << body;
  }
  const std::string long_name(limits::kCalledNameBytesMax + 1, 'n');
  EXPECT_EQ(CodeOf(kLegacy, R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":")" +
                                long_name + "\"}}"),
            -32600);
}

TEST(McpRequestTest, ARefusalCarriesTheIdAsItCame) {
  const auto refused = ReadMcpRequest(
      kLegacy, R"({"jsonrpc":"2.0","id":"x\u0041","method":"tools/call","params":{}})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().id, R"("x\u0041")");
  const std::string body = RefusalBody(refused.error());
  EXPECT_TRUE(ParseJson(body)) << body;
  EXPECT_TRUE(body.starts_with(R"({"jsonrpc":"2.0","id":"x\u0041","error":{"code":-32600,)"));
}

TEST(McpRequestTest, AFieldThatLiesAboutAModernBodyIsRefused) {
  EXPECT_EQ(CodeOf(Modern(), ModernCall()), 0);
  EXPECT_EQ(CodeOf(Modern("search"), ModernCall()), -32020);
  EXPECT_EQ(CodeOf(Modern("CREATE_REFUND"), ModernCall()), -32020);
  Headers headers = Modern();
  SetHeader(headers, "mcp-method", "tools/list");
  EXPECT_EQ(CodeOf(headers, ModernCall()), -32020);
  headers = Modern();
  SetHeader(headers, "mcp-protocol-version", "2025-11-25");
  EXPECT_EQ(CodeOf(headers, ModernCall()), -32020);
  for (const char* name : {"Mcp-Name", "Mcp-Method", "MCP-Protocol-Version"}) {
    headers = Modern();
    headers.emplace_back(name, *FindHeader(headers, name));
    EXPECT_EQ(CodeOf(headers, ModernCall()), -32020) << name;
  }
  // Of what may be asked of the server, it refuses what is missing in its own words.
  EXPECT_EQ(CodeOf({}, ModernCall()), 0);
}

std::string WhyRefused(const Headers& headers, std::string_view body) {
  const McpRequest request = Read(headers, body);
  const auto refusal = RefusalOfFields(headers, request, request.arguments, {});
  if (!refusal) return {};
  EXPECT_EQ(refusal->code, -32020);
  EXPECT_EQ(refusal->id, "\"a-1\"");
  return refusal->message;
}

TEST(McpRequestTest, WhatAServerOfTheModernProtocolMustRefuseIsKnown) {
  EXPECT_EQ(WhyRefused(Modern(), ModernCall()), "");
  for (const char* name : {"Mcp-Name", "Mcp-Method", "MCP-Protocol-Version"}) {
    Headers headers = Modern();
    RemoveHeader(headers, name);
    EXPECT_EQ(WhyRefused(headers, ModernCall()),
              "Header mismatch: " + std::string(name) + " is missing");
  }
  Headers headers = Modern();
  headers.emplace_back("mcp-param-Region", "=?base64?5om+?=");
  EXPECT_EQ(WhyRefused(headers, ModernCall()), "");
  headers.emplace_back("Mcp-Param-Region", "eu");
  EXPECT_EQ(WhyRefused(headers, ModernCall()), "Header mismatch: Mcp-Param-Region is there twice");
  headers = Modern();
  headers.emplace_back("Mcp-Param-City", "=?base64?5om-?=");
  EXPECT_EQ(WhyRefused(headers, ModernCall()), "Header mismatch: Mcp-Param-City is no base64");
}

TEST(McpRequestTest, ACallAboutATaskNamesItTwice) {
  const std::string cancel =
      R"({"jsonrpc":"2.0","id":"a-1","method":"tasks/cancel","params":{"taskId":"t"}})";
  Headers headers = Modern("t");
  SetHeader(headers, "Mcp-Method", "tasks/cancel");
  EXPECT_EQ(WhyRefused(headers, cancel), "");
  SetHeader(headers, "Mcp-Name", "u");
  EXPECT_EQ(CodeOf(headers, cancel), -32020);
  RemoveHeader(headers, "Mcp-Name");
  EXPECT_EQ(WhyRefused(headers, cancel), "Header mismatch: Mcp-Name is missing");
}

TEST(McpRequestTest, AnOlderCallNeedsNoFields) {
  const std::string call =
      R"({"jsonrpc":"2.0","id":"a-1","method":"tools/call","params":{"name":"t"}})";
  Headers headers = kLegacy;
  headers.emplace_back("Mcp-Param-City", "=?base64?");
  EXPECT_EQ(WhyRefused(headers, call), "");
}

TEST(McpRequestTest, AnEncodedNameIsComparedDecoded) {
  EXPECT_EQ(CodeOf(Modern("=?base64?Y3JlYXRlX3JlZnVuZA==?="), ModernCall()), 0);
  EXPECT_EQ(CodeOf(Modern("=?base64?5om+?="), ModernCall("\xe6\x89\xbe")), 0);
  EXPECT_EQ(CodeOf(Modern("=?base64?c2VhcmNo?="), ModernCall()), -32020);
  EXPECT_EQ(CodeOf(Modern("=?base64?Y3JlYXRlX3JlZnVuZA?="), ModernCall()), -32020);
  EXPECT_EQ(CodeOf(Modern("=?base64?5om-?="), ModernCall("\xe6\x89\xbe")), -32020);
  EXPECT_EQ(CodeOf(Modern("=?base64?"), ModernCall()), -32020);
  // A name that looks encoded has to be.
  EXPECT_EQ(CodeOf(Modern("=?base64?YQ==?="), ModernCall("=?base64?YQ==?=")), -32020);
}

TEST(McpRequestTest, TheBodyDecidesWhateverALegacyCallSaysAboutItself) {
  Headers headers = kLegacy;
  headers.emplace_back("Mcp-Name", "search");
  const McpRequest call =
      Read(headers,
           R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_refund"}})");
  EXPECT_EQ(call.tool, "create_refund");
  EXPECT_EQ(call.kind, Kind::kToolCall);
}

TEST(McpRequestTest, ABatchHoldsNoWrite) {
  const std::string ping = R"({"jsonrpc":"2.0","id":1,"method":"ping"})";
  const std::string note = R"({"jsonrpc":"2.0","method":"notifications/cancelled"})";
  const std::string call =
      R"({"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}})";
  const auto both = ReadMcpRequest(kLegacy, "[" + ping + "," + note + "]");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->size(), 2u);
  EXPECT_EQ(both->front().id, "1");
  EXPECT_EQ(CodeOf(kLegacy, "[" + ping + "," + call + "]"), -32600);
  EXPECT_EQ(CodeOf(kLegacy, "[" + call + "]"), -32600);
  EXPECT_EQ(CodeOf({{"MCP-Protocol-Version", "2026-07-28"}}, "[" + ping + "]"), -32600);
  std::string many = "[" + ping;
  const auto numbered = [](std::size_t id) {
    return R"(,{"jsonrpc":"2.0","method":"ping","id":)" + std::to_string(id) + "}";
  };
  for (std::size_t i = 1; i < limits::kBatchMax; ++i) many += numbered(i + 1);
  EXPECT_EQ(CodeOf(kLegacy, many + "]"), 0);
  EXPECT_EQ(CodeOf(kLegacy, many + numbered(0) + "]"), -32600);
}

// Or the answer to one would be taken for that of the other.
TEST(McpRequestTest, TheRequestsOfABatchHaveIdsOfTheirOwn) {
  const auto ping = [](const std::string& id) {
    return R"({"jsonrpc":"2.0","id":)" + id + R"(,"method":"ping"})";
  };
  const std::string answer = R"({"jsonrpc":"2.0","id":1,"result":{}})";
  EXPECT_EQ(CodeOf(kLegacy, "[" + ping("1") + "," + ping("2") + "]"), 0);
  EXPECT_EQ(CodeOf(kLegacy, "[" + ping("1") + "," + ping(R"("1")") + "]"), 0);
  EXPECT_EQ(CodeOf(kLegacy, "[" + ping("1") + "," + answer + "]"), 0);
  EXPECT_EQ(CodeOf(kLegacy, "[" + ping("1") + "," + ping("1") + "]"), -32600);
  EXPECT_EQ(CodeOf(kLegacy, "[" + ping(R"("a")") + "," + ping(R"("\u0061")") + "]"), -32600);
}

}  // namespace
}  // namespace recourse::mcp_request_test
