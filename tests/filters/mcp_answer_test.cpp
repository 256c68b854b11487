#include "filters/mcp/mcp_answer.h"

#include <gtest/gtest.h>

#include "proxy/base/mcp_limits.h"

namespace recourse::mcp_answer_test {
namespace {

McpFinal Final(std::string_view text) {
  const auto json = ParseJson(text);
  EXPECT_TRUE(json) << text;
  return json ? ReadMcpFinal(*json, text) : McpFinal();
}

McpKind KindOf(std::string_view part) {
  return Final(R"({"jsonrpc":"2.0","id":1,)" + std::string(part) + "}").kind;
}

McpKind KindOfError(int code, std::string_view message = "no") {
  return KindOf(R"("error":{"code":)" + std::to_string(code) + R"(,"message":")" +
                std::string(message) + "\"}");
}

McpKind KindOfFailure(std::string_view text) {
  return KindOf(R"("result":{"isError":true,"content":[{"type":"text","text":")" +
                std::string(text) + R"("}]})");
}

std::optional<Json> Output(std::string_view result) {
  return McpToolOutput(*ParseJson(R"({"jsonrpc":"2.0","result":)" + std::string(result) + "}"));
}

TEST(McpAnswerTest, TheMessageSaysWhatBecameOfTheCall) {
  EXPECT_EQ(KindOf(R"("result":{"content":[]})"), McpKind::kResult);
  EXPECT_EQ(KindOf(R"("result":{"content":[],"isError":false})"), McpKind::kResult);
  EXPECT_EQ(KindOf(R"("result":{"resultType":"complete","content":[]})"), McpKind::kResult);
  EXPECT_EQ(KindOf(R"("result":{"resultType":"input_required","requestState":"s"})"),
            McpKind::kInputRequired);
  EXPECT_EQ(KindOf(R"("result":{"resultType":"task","taskId":"t"})"), McpKind::kTask);
  EXPECT_EQ(KindOf(R"("result":{"task":{"taskId":"t","status":"working"}})"), McpKind::kTask);
  EXPECT_EQ(KindOf(R"("result":{"resultType":"news"})"), McpKind::kError);
  EXPECT_EQ(KindOf(R"("result":[])"), McpKind::kError);
  EXPECT_EQ(KindOf(R"("result":{},"error":{"code":-32600,"message":""})"), McpKind::kError);
  EXPECT_EQ(KindOfFailure("disk full"), McpKind::kToolError);
  EXPECT_EQ(KindOf(R"("result":{"isError":"true"})"), McpKind::kToolError);
}

TEST(McpAnswerTest, SomeErrorsProveThatNothingRan) {
  for (const int code : {-32700, -32600, -32601, -32602, -32020, -32021, -32022}) {
    EXPECT_EQ(KindOfError(code), McpKind::kRefused) << code;
  }
  for (const int code : {-32603, -32000, -32001, -32002, -32023, 0, 42}) {
    EXPECT_EQ(KindOfError(code), McpKind::kError) << code;
  }
  EXPECT_EQ(KindOfError(-32042), McpKind::kInputRequired);
  EXPECT_EQ(KindOf(R"("error":{"code":"-32600"})"), McpKind::kError);
  EXPECT_EQ(KindOf(R"("error":"no")"), McpKind::kError);
}

TEST(McpAnswerTest, RefusedArgumentsAreToldApartFromARefusedResult) {
  EXPECT_EQ(KindOfFailure("MCP error -32602: Input validation error: Invalid arguments for tool a"),
            McpKind::kRefused);
  EXPECT_EQ(KindOfFailure("Input validation error: Invalid arguments for tool a: x"),
            McpKind::kRefused);
  EXPECT_EQ(KindOfFailure("MCP error -32602: Tool a not found"), McpKind::kRefused);
  EXPECT_EQ(KindOfFailure("MCP error -32601: Tool a requires task augmentation (taskSupport: "
                          "'required')"),
            McpKind::kRefused);
  // The tool has run by then.
  EXPECT_EQ(KindOfFailure("MCP error -32602: Output validation error: Tool a has an output schema"),
            McpKind::kToolError);
  EXPECT_EQ(KindOfFailure("MCP error -32602: Tool a has an output schema but no structured content "
                          "was provided"),
            McpKind::kToolError);
  EXPECT_EQ(KindOfError(-32602, "MCP error -32602: Invalid structured content for tool a"),
            McpKind::kError);
  // The words of another server, which the tool asked.
  EXPECT_EQ(KindOfFailure("MCP error -32602: no such warehouse"), McpKind::kToolError);
  EXPECT_EQ(KindOfFailure("MCP error -32601: Method not found"), McpKind::kToolError);
  EXPECT_EQ(KindOfFailure("MCP error -32601: Tool a is no warehouse's"), McpKind::kToolError);
}

TEST(McpAnswerTest, TheAnswerIsKeptWithoutItsIdAndGivenBackWithAnother) {
  const McpFinal final =
      Final("{\"result\": {\"a\":1.0, \"id\":2} , \"id\":9,\n\"jsonrpc\":\"2.0\"}");
  EXPECT_EQ(final.message, R"({"jsonrpc":"2.0","result":{"a":1.0, "id":2}})");
  EXPECT_EQ(WithMcpId(final.message, "\"x\""),
            R"({"jsonrpc":"2.0","id":"x","result":{"a":1.0, "id":2}})");
  EXPECT_TRUE(IsMcpResponse(*ParseJson(WithMcpId(final.message, "7")), "7"));
}

TEST(McpAnswerTest, OnlyTheResponseToTheRequestIsItsAnswer) {
  const auto is_answer = [](std::string_view text, std::string_view id) {
    return IsMcpResponse(*ParseJson(text), id);
  };
  EXPECT_TRUE(is_answer(R"({"id":1,"result":{}})", "1"));
  EXPECT_TRUE(is_answer(R"({"id":1.0,"result":{}})", "1"));
  EXPECT_TRUE(is_answer(R"({"id":"\u0061","error":{}})", "\"a\""));
  EXPECT_FALSE(is_answer(R"({"id":"1","result":{}})", "1"));
  EXPECT_FALSE(is_answer(R"({"id":2,"result":{}})", "1"));
  EXPECT_TRUE(is_answer(R"({"id":2,"result":{}})", ""));
  EXPECT_TRUE(is_answer(R"({"id":null,"error":{}})", "1"));
  EXPECT_TRUE(is_answer(R"({"error":{}})", "1"));
  EXPECT_FALSE(is_answer(R"({"result":{}})", "1"));
  EXPECT_FALSE(is_answer(R"({"id":1,"method":"roots/list"})", "1"));
  EXPECT_FALSE(is_answer("[]", ""));
}

TEST(McpAnswerTest, ThePolicyReadsStructuredContentOrJsonText) {
  EXPECT_EQ(CanonicalJson(*Output(R"({"structuredContent":{"id":"r1"},"content":[]})")),
            R"({"id":"r1"})");
  EXPECT_EQ(CanonicalJson(*Output(
                R"({"content":[{"type":"image"},{"type":"text","text":"{\"id\":\"r2\"}"}]})")),
            R"({"id":"r2"})");
  EXPECT_FALSE(Output(R"({"content":[{"type":"text","text":"done"}]})"));
  EXPECT_FALSE(Output(R"({"content":[{"type":"text","text":"7"}]})"));
  EXPECT_FALSE(Output(R"({"content":[{"type":"text","text":"x"},{"type":"text","text":"{}"}]})"));
  EXPECT_FALSE(Output(R"({"content":7})"));
}

TEST(McpAnswerTest, AnExecutedCallWithoutAnAnswerIsKeptAsASentence) {
  const std::string message = McpOfLostAnswer("o\"3");
  EXPECT_EQ(Final(message).kind, McpKind::kResult);
  EXPECT_EQ(TextOfLostAnswer(message),
            "It was executed; its reference is o\"3. Its own answer was lost. Do not repeat it.");
  EXPECT_EQ(TextOfLostAnswer(McpOfLostAnswer("")),
            "It was executed. Its own answer was lost. Do not repeat it.");
  // A server's own answer stays as it is, whatever it looks like.
  EXPECT_EQ(TextOfLostAnswer(R"({"jsonrpc":"2.0","result":{"isError":false,"content":[]}})"), "");
}

TEST(McpAnswerTest, HalvesOfCharactersAreReplaced) {
  const auto read = [](std::string text) {
    return ReadMcpJson(text) ? text : std::string("not JSON");
  };
  EXPECT_EQ(read(R"({"a":"x\ud83d"})"), R"({"a":"x\ufffd"})");
  EXPECT_EQ(read(R"({"a":"\ude00\ud83d\ude00\uD83D\u0041"})"),
            R"({"a":"\ufffd\ud83d\ude00\ufffd\u0041"})");
  EXPECT_EQ(read(R"({"a":"\\ud83d"})"), R"({"a":"\\ud83d"})") << "no escape at all";
  EXPECT_EQ(read(R"({"a":"\\ud83d\ud83d"})"), R"({"a":"\\ud83d\ufffd"})");
  for (const char* text : {R"({"a":"\ud83)", R"({"a":"\ud83d)", "\\", R"("\u12")", "{"}) {
    EXPECT_EQ(read(text), "not JSON") << text;
  }
}

TEST(McpAnswerTest, TheWordsOfAFailureAreBounded) {
  std::string text(limits::kMcpFailureBytesMax - 1, 'x');
  text += "\xc3\xa9";
  const auto json = ParseJson(R"({"error":{"message":")" + text + "\"}}");
  EXPECT_EQ(McpFailureText(*json), std::string(limits::kMcpFailureBytesMax - 1, 'x'));
  EXPECT_EQ(McpFailureText(*ParseJson(R"({"result":{"content":[{"type":"text","text":"a"}]}})")),
            "a");
}

}  // namespace
}  // namespace recourse::mcp_answer_test
