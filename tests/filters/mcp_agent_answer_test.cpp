#include <gtest/gtest.h>

#include "filters/call/answers.h"
#include "filters/key/event_answer.h"
#include "filters/mcp/agent_reply.h"
#include "filters/mcp/mcp_answer.h"
#include "proxy/base/json/json.h"

namespace recourse::mcp_agent_answer_test {
namespace {

McpRequest ToolCall(McpEra era = McpEra::kLegacy) {
  McpRequest request;
  request.kind = McpRequest::Kind::kToolCall;
  request.era = era;
  request.id = "\"a-7\"";
  request.method = "tools/call";
  request.tool = "create_order";
  return request;
}

McpRequest Unknown() {
  McpRequest request;
  request.kind = McpRequest::Kind::kWrite;
  request.id = "3";
  request.method = "tasks/cancel";
  return request;
}

WriteAnswer Kept(std::string body, int status = 200) {
  WriteAnswer answer;
  answer.response.status = status;
  answer.response.headers = {{"Content-Type", "application/json"}, {"Recourse-Event", "5"}};
  answer.response.body = std::move(body);
  return answer;
}

Event Waiting() {
  Event event;
  event.id = 9;
  event.operation = 8;
  event.phase = Phase::kClaimed;
  return event;
}

Json Read(const HttpResponse& response) {
  const auto json = ParseJson(response.body);
  EXPECT_TRUE(json) << response.body;
  return json ? *json : Json();
}

std::string At(const Json& json, std::string_view pointer) {
  const Json* const found = AtPointer(json, pointer);
  if (found == nullptr) return "nothing";
  if (found->kind == Json::Kind::kTrue) return "true";
  if (found->kind == Json::Kind::kFalse) return "false";
  return ScalarText(*found);
}

TEST(AgentAnswer, AKeptMessageGetsTheIdOfThisRequestAndKeepsItsBytes) {
  const HttpResponse answer =
      AgentAnswer(ToolCall(), {}, Kept(R"({"jsonrpc":"2.0","result":{"x": 1.50}})"));
  EXPECT_EQ(answer.body, R"({"jsonrpc":"2.0","id":"a-7","result":{"x": 1.50}})");
  EXPECT_EQ(*FindHeader(answer.headers, "Content-Type"), "application/json");
  EXPECT_EQ(*FindHeader(answer.headers, "Recourse-Event"), "5");
}

TEST(AgentAnswer, AnEventStreamWhereTheClientTakesNothingElse) {
  ClientFacts side = ReadAgentSide({{"Accept", "text/event-stream"}});
  EXPECT_FALSE(side.takes_json);
  const HttpResponse answer =
      AgentAnswer(ToolCall(), side, Kept("{\"jsonrpc\":\"2.0\",\"result\":\n{}}"));
  EXPECT_EQ(*FindHeader(answer.headers, "Content-Type"), "text/event-stream");
  EXPECT_EQ(answer.body,
            "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"a-7\",\"result\":{}}\n\n");
}

TEST(AgentAnswer, AcceptOfEveryKind) {
  for (const auto& [accept, json, events] :
       std::vector<std::tuple<std::string, bool, bool>>{{"*/*", true, true},
                                                        {"application/json", true, false},
                                                        {"Application/JSON, */*;q=0.1", true, true},
                                                        {"text/event-stream", false, true}}) {
    const ClientFacts side = ReadAgentSide({{"accept", accept}});
    EXPECT_EQ(side.takes_json, json) << accept;
    EXPECT_EQ(side.takes_events, events) << accept;
  }
}

TEST(AgentAnswer, WhatAServerSaysInHttpGoesOnAsItIs) {
  WriteAnswer refused = Kept("log in first", 401);
  refused.response.headers.emplace_back("WWW-Authenticate", "Bearer");
  const HttpResponse answer = AgentAnswer(ToolCall(), {}, std::move(refused));
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.body, "log in first");
  EXPECT_NE(FindHeader(answer.headers, "WWW-Authenticate"), nullptr);
}

TEST(AgentAnswer, AnErrorOfTheServerKeepsItsStatus) {
  const HttpResponse answer = AgentAnswer(
      ToolCall(), {}, Kept(R"({"jsonrpc":"2.0","error":{"code":-32020,"message":"m"}})", 400));
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(At(Read(answer), "/id"), "a-7");
  EXPECT_EQ(At(Read(answer), "/error/code"), "-32020");
}

TEST(AgentAnswer, AProblemOfAToolCallIsAResultThatModelsCanRead) {
  ProblemFacts facts;
  facts.event = 12;
  const HttpResponse answer = AgentAnswer(
      ToolCall(), {}, MakeProblem(ErrorCode::kOutcomeUnknown, "the stream was cut", facts));
  EXPECT_EQ(answer.status, 200);
  const Json json = Read(answer);
  EXPECT_EQ(At(json, "/id"), "a-7");
  EXPECT_EQ(At(json, "/result/isError"), "true");
  EXPECT_EQ(At(json, "/result/resultType"), "nothing");
  const std::string text = At(json, "/result/content/0/text");
  EXPECT_TRUE(text.starts_with("Outcome unknown. the stream was cut. The call was sent")) << text;
  EXPECT_EQ(At(json, "/result/_meta/dev.recourse~1outcome"), "unknown");
  EXPECT_EQ(At(json, "/result/_meta/dev.recourse~1event"), "12");
  EXPECT_EQ(At(json, "/result/_meta/dev.recourse~1retryable"), "true");
}

TEST(AgentAnswer, AnExecutedCallWithoutAnAnswerIsToldInTheFormThatItsClientTakes) {
  for (const auto& [schema, is_error] : std::vector<std::pair<std::optional<bool>, std::string>>{
           {std::nullopt, "true"}, {true, "true"}, {false, "false"}}) {
    ClientFacts side;
    side.has_output_schema = schema;
    const Json json = Read(AgentAnswer(ToolCall(), side, Kept(McpOfLostAnswer("o-3"))));
    EXPECT_EQ(At(json, "/id"), "a-7");
    EXPECT_EQ(At(json, "/result/isError"), is_error);
    EXPECT_EQ(At(json, "/result/content/0/text"),
              "It was executed; its reference is o-3. Its own answer was lost. Do not repeat it.");
    EXPECT_EQ(At(json, "/result/_meta/dev.recourse~1outcome"), "executed");
    EXPECT_EQ(At(json, "/result/_meta/dev.recourse~1event"), "5");
    EXPECT_EQ(At(json, "/result/_meta/dev.recourse~1retryable"), "false");
    EXPECT_EQ(At(json, "/result/resultType"), "nothing");
  }
  const Json json = Read(AgentAnswer(ToolCall(McpEra::kModern), {}, Kept(McpOfLostAnswer(""))));
  EXPECT_EQ(At(json, "/result/resultType"), "complete");
}

TEST(AgentAnswer, AResultOfTheModernProtocolSaysThatItIsComplete) {
  const HttpResponse answer =
      AgentAnswer(ToolCall(McpEra::kModern), {}, MakeProblem(ErrorCode::kDenied, "no"));
  EXPECT_EQ(At(Read(answer), "/result/resultType"), "complete");
}

TEST(AgentAnswer, AProblemOfAnotherMethodIsAnErrorOutsideTheReservedCodes) {
  const HttpResponse answer = AgentAnswer(Unknown(), {}, MakeProblem(ErrorCode::kDenied, "no"));
  const Json json = Read(answer);
  EXPECT_EQ(At(json, "/id"), "3");
  EXPECT_EQ(At(json, "/error/code"), "403");
  EXPECT_EQ(At(json, "/error/data/outcome"), "rejected");
}

TEST(AgentAnswer, WhoeverWaitsForAHumanIsNeverTold202) {
  for (const auto& [schema, is_error] : std::vector<std::pair<std::optional<bool>, std::string>>{
           {std::nullopt, "true"}, {true, "true"}, {false, "false"}}) {
    ClientFacts side;
    side.has_output_schema = schema;
    const HttpResponse answer =
        AgentAnswer(ToolCall(), side, AnswerToHeld(Waiting(), nullptr, "/poll"));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(FindHeader(answer.headers, "Location"), nullptr);
    const Json json = Read(answer);
    EXPECT_EQ(At(json, "/result/isError"), is_error);
    EXPECT_EQ(At(json, "/result/_meta/dev.recourse~1outcome"), "pending");
    EXPECT_NE(At(json, "/result/content/0/text").find("repeat exactly the same call"),
              std::string::npos);
  }
}

TEST(AgentAnswer, AModernClientIsAskedToComeBack) {
  ClientFacts side;
  side.request_state = "recourse1.x";
  const HttpResponse answer =
      AgentAnswer(ToolCall(McpEra::kModern), side, AnswerToHeld(Waiting(), nullptr, "/poll"));
  const Json json = Read(answer);
  EXPECT_EQ(At(json, "/result/resultType"), "input_required");
  EXPECT_EQ(At(json, "/result/requestState"), "recourse1.x");
  EXPECT_EQ(At(json, "/result/content"), "nothing");
}

TEST(AgentAnswer, AnOrderAboutTheFlowIsAnsweredAsTheRequestThatBroughtIt) {
  ClientFacts side;
  side.orders_flow = true;
  const HttpResponse answer = AgentAnswer(ToolCall(), side, Kept("{\"flow\":\"f\"}", 202));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(At(Read(answer), "/result/_meta/dev.recourse~1flow/flow"), "f");
  EXPECT_EQ(At(Read(answer), "/result/content/0/text"), "{\"flow\":\"f\"}");
}

TEST(AgentAnswer, WhoAskedNothingIsToldInHttp) {
  McpRequest notification = Unknown();
  notification.id.clear();
  EXPECT_EQ(AgentAnswer(notification, {}, MakeProblem(ErrorCode::kDenied, "no")).status, 403);
}

TEST(AgentAnswer, WhatWasRefusedUnreadHasNoId) {
  const HttpResponse answer = AgentRefusal(MakeProblem(ErrorCode::kRequestTooLarge, "9 MiB"));
  EXPECT_EQ(answer.status, 413);
  const Json json = Read(answer);
  EXPECT_EQ(AtPointer(json, "/id")->kind, Json::Kind::kNull);
  EXPECT_EQ(At(json, "/error/code"), "413");
}

}  // namespace
}  // namespace recourse::mcp_agent_answer_test
