#include "filters/mcp/mcp_answer.h"

#include <gtest/gtest.h>

#include "proxy/base/message_limits.h"

namespace recourse::mcp_answer_test {
namespace {

FinalMessage Final(std::string_view text) {
  const auto json = ParseJson(text);
  EXPECT_TRUE(json) << text;
  return json ? ReadMcpFinal(*json, text) : FinalMessage();
}

MessageKind KindOf(std::string_view part) {
  return Final(R"({"jsonrpc":"2.0","id":1,)" + std::string(part) + "}").kind;
}

MessageKind KindOfError(int code, std::string_view message = "no") {
  return KindOf(R"("error":{"code":)" + std::to_string(code) + R"(,"message":")" +
                std::string(message) + "\"}");
}

MessageKind KindOfFailure(std::string_view text) {
  return KindOf(R"("result":{"isError":true,"content":[{"type":"text","text":")" +
                std::string(text) + R"("}]})");
}

std::optional<Json> Output(std::string_view result) {
  return McpToolOutput(*ParseJson(R"({"jsonrpc":"2.0","result":)" + std::string(result) + "}"));
}

TEST(McpAnswerTest, TheMessageSaysWhatBecameOfTheCall) {
  EXPECT_EQ(KindOf(R"("result":{"content":[]})"), MessageKind::kResult);
  EXPECT_EQ(KindOf(R"("result":{"content":[],"isError":false})"), MessageKind::kResult);
  EXPECT_EQ(KindOf(R"("result":{"resultType":"complete","content":[]})"), MessageKind::kResult);
  EXPECT_EQ(KindOf(R"("result":{"resultType":"input_required","requestState":"s"})"),
            MessageKind::kInputRequired);
  EXPECT_EQ(KindOf(R"("result":{"resultType":"task","taskId":"t"})"), MessageKind::kTask);
  EXPECT_EQ(KindOf(R"("result":{"task":{"taskId":"t","status":"working"}})"), MessageKind::kTask);
  EXPECT_EQ(KindOf(R"("result":{"resultType":"news"})"), MessageKind::kError);
  EXPECT_EQ(KindOf(R"("result":[])"), MessageKind::kError);
  EXPECT_EQ(KindOf(R"("result":{},"error":{"code":-32600,"message":""})"), MessageKind::kError);
  EXPECT_EQ(KindOfFailure("disk full"), MessageKind::kToolError);
  EXPECT_EQ(KindOf(R"("result":{"isError":"true"})"), MessageKind::kToolError);
}

TEST(McpAnswerTest, SomeErrorsProveThatNothingRan) {
  for (const int code : {-32700, -32600, -32601, -32602, -32020, -32021, -32022}) {
    EXPECT_EQ(KindOfError(code), MessageKind::kRefused) << code;
  }
  for (const int code : {-32603, -32000, -32001, -32002, -32023, 0, 42}) {
    EXPECT_EQ(KindOfError(code), MessageKind::kError) << code;
  }
  EXPECT_EQ(KindOfError(-32042), MessageKind::kInputRequired);
  EXPECT_EQ(KindOf(R"("error":{"code":"-32600"})"), MessageKind::kError);
  EXPECT_EQ(KindOf(R"("error":"no")"), MessageKind::kError);
}

TEST(McpAnswerTest, RefusedArgumentsAreToldApartFromARefusedResult) {
  EXPECT_EQ(KindOfFailure("MCP error -32602: Input validation error: Invalid arguments for tool a"),
            MessageKind::kRefused);
  EXPECT_EQ(KindOfFailure("Input validation error: Invalid arguments for tool a: x"),
            MessageKind::kRefused);
  EXPECT_EQ(KindOfFailure("MCP error -32602: Tool a not found"), MessageKind::kRefused);
  EXPECT_EQ(KindOfFailure("MCP error -32601: Tool a requires task augmentation (taskSupport: "
                          "'required')"),
            MessageKind::kRefused);
  // The tool has run by then.
  EXPECT_EQ(KindOfFailure("MCP error -32602: Output validation error: Tool a has an output schema"),
            MessageKind::kToolError);
  EXPECT_EQ(KindOfFailure("MCP error -32602: Tool a has an output schema but no structured content "
                          "was provided"),
            MessageKind::kToolError);
  EXPECT_EQ(KindOfError(-32602, "MCP error -32602: Invalid structured content for tool a"),
            MessageKind::kError);
  // The words of another server, which the tool asked.
  EXPECT_EQ(KindOfFailure("MCP error -32602: no such warehouse"), MessageKind::kToolError);
  EXPECT_EQ(KindOfFailure("MCP error -32601: Method not found"), MessageKind::kToolError);
  EXPECT_EQ(KindOfFailure("MCP error -32601: Tool a is no warehouse's"), MessageKind::kToolError);
}

TEST(McpAnswerTest, TheAnswerIsKeptWithoutItsIdAndGivenBackWithAnother) {
  const FinalMessage final =
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
  EXPECT_EQ(Final(message).kind, MessageKind::kResult);
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
  std::string text(limits::kFailureBytesMax - 1, 'x');
  text += "\xc3\xa9";
  const auto json = ParseJson(R"({"error":{"message":")" + text + "\"}}");
  EXPECT_EQ(McpFailureText(*json), std::string(limits::kFailureBytesMax - 1, 'x'));
  EXPECT_EQ(McpFailureText(*ParseJson(R"({"result":{"content":[{"type":"text","text":"a"}]}})")),
            "a");
}

}  // namespace
}  // namespace recourse::mcp_answer_test
