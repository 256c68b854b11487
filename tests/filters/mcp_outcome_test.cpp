// What the answers of MCP servers prove: of calls, of undo requests, of settle requests.
#include "filters/mcp/mcp_outcome.h"

#include <gtest/gtest.h>

#include "filters/call/call_values.h"
#include "filters/call/stored_response.h"
#include "filters/endpoint_redirect.h"
#include "filters/mcp/mcp_answer.h"
#include "filters/mcp/mcp_codec.h"
#include "filters/saga/undo_plan.h"
#include "filters/settle/probe.h"

namespace recourse::mcp_outcome_test {
namespace {

Answer Message(std::string part, int status = 200) {
  Answer answer;
  answer.codec = &McpCodec();
  answer.response.status = status;
  const std::string text = R"({"jsonrpc":"2.0","id":1,)" + part + "}";
  const FinalMessage final = ReadMcpFinal(*ParseJson(text), text);
  answer.response.body = final.message;
  answer.message = final.kind;
  return answer;
}
Answer Error(int code, int status = 200) {
  return Message(R"("error":{"code":)" + std::to_string(code) + R"(,"message":"no"})", status);
}
Answer Failure(const std::string& words, int status = 200) {
  return Message(
      R"("result":{"isError":true,"content":[{"type":"text","text":")" + words + R"("}]})", status);
}
Answer OverHttp(int status) {
  Answer answer;
  answer.codec = &McpCodec();
  answer.response.status = status;
  return answer;
}
const Answer kDone = Message(R"("result":{"structuredContent":{"id":"r1","ok":true}})");

Verdict Judge(const Answer& answer, const Tool& tool = Tool()) {
  const std::optional<Json> body = ReadAnswerBody(answer);
  CallValues values;
  values.answer_status = answer.response.status;
  values.answer_headers = &answer.response.headers;
  values.answer_body = body ? &*body : nullptr;
  return Classify(tool, answer, values);
}

Condition Holds(const std::string& text) {
  auto condition = ParseCondition(text);
  EXPECT_TRUE(condition) << text;
  return *condition;
}

TEST(McpOutcomeTest, EachAnswerProvesWhatTheTableSays) {
  struct Row {
    Answer answer;
    Phase phase;
  };
  const std::vector<Row> rows = {
      {kDone, Phase::kSucceeded},
      {Failure("disk full"), Phase::kUncertain},
      {Failure("Input validation error: Invalid arguments for tool a"), Phase::kRejected},
      {Error(-32602), Phase::kRejected},
      {Error(-32601, 404), Phase::kNotSent},
      {Error(-32020, 400), Phase::kNotSent},
      {Error(-32021), Phase::kNotSent},
      {Error(-32603), Phase::kUncertain},
      {Error(-32000), Phase::kUncertain},
      {Error(-32001, 404), Phase::kNotSent},
      {Error(-32000, 400), Phase::kNotSent},
      {Error(-32603, 500), Phase::kUncertain},
      {Error(-32000, 409), Phase::kUncertain},
      {Message(R"("result":{"resultType":"input_required"})"), Phase::kNotSent},
      {Error(-32042), Phase::kNotSent},
      {Message(R"("result":{"resultType":"task","taskId":"t"})"), Phase::kUncertain},
      {Message(R"("result":{"resultType":"news"})"), Phase::kUncertain},
      {Message(R"("result":{})", 500), Phase::kUncertain},
      {OverHttp(401), Phase::kNotSent},
      {OverHttp(403), Phase::kNotSent},
      {OverHttp(404), Phase::kNotSent},
      {OverHttp(405), Phase::kNotSent},
      {OverHttp(429), Phase::kNotSent},
      {OverHttp(409), Phase::kUncertain},
      {OverHttp(500), Phase::kUncertain},
      {OverHttp(503), Phase::kUncertain},
  };
  for (const Row& row : rows) {
    const Verdict verdict = Judge(row.answer);
    const std::string name =
        std::to_string(row.answer.response.status) + " " + row.answer.response.body;
    EXPECT_EQ(verdict.phase, row.phase) << name;
    EXPECT_FALSE(verdict.problem.has_value()) << name;
  }
}

TEST(McpOutcomeTest, ARedirectIsNotPassedOn) {
  const auto to = [](int status, std::string location) {
    Answer answer = OverHttp(status);
    answer.response.headers.emplace_back("Location", std::move(location));
    return answer;
  };
  for (const int status : {307, 308}) {
    const Verdict verdict = Judge(to(status, "https://a.example/mcp/?code=7"));
    EXPECT_EQ(verdict.phase, Phase::kNotSent);
    EXPECT_EQ(verdict.problem, ErrorCode::kBackendProtocol);
    EXPECT_EQ(verdict.detail,
              "the server redirects to https://a.example/mcp/; put that url in the policy");
  }
  for (const int status : {300, 301, 302, 303, 305, 399}) {
    const Verdict verdict = Judge(to(status, "/mcp/"));
    EXPECT_EQ(verdict.phase, Phase::kUncertain) << status;
    EXPECT_EQ(verdict.problem, ErrorCode::kOutcomeUnknown) << status;
  }
  Answer both = Message(R"("result":{"isError":true,"content":[]})", 307);
  EXPECT_EQ(Judge(both).problem, ErrorCode::kOutcomeUnknown);
  const Answer unguarded = to(307, "/mcp/");
  CallValues values;
  EXPECT_TRUE(Classify(Tool(), unguarded, values).problem);
  EXPECT_EQ(RedirectText(""), RedirectText("/\x80"));
}

TEST(McpOutcomeTest, ATaskIsPending) {
  EXPECT_EQ(Judge(Message(R"("result":{"resultType":"task","taskId":"t"})")).http_status, 202);
}

TEST(McpOutcomeTest, ThePolicySaysWhatAToolsOwnFailureProves) {
  Tool tool;
  tool.on_error = OnError::kNotExecuted;
  const Verdict verdict = Judge(Failure("no stock"), tool);
  EXPECT_EQ(verdict.phase, Phase::kRejected);
  EXPECT_EQ(verdict.detail, "the tool failed: no stock");
  tool = Tool();
  tool.failed_when.push_back(Holds("answer.body#/code == \"gone\""));
  EXPECT_EQ(Judge(Failure(R"({\"code\":\"gone\"})"), tool).phase, Phase::kRejected);
  EXPECT_EQ(Judge(Failure(R"({\"code\":\"busy\"})"), tool).phase, Phase::kUncertain);
}

TEST(McpOutcomeTest, ConditionsReadTheOutputOfTheTool) {
  Tool tool;
  tool.success_when.push_back(Holds("answer.body#/ok == true"));
  EXPECT_EQ(Judge(kDone, tool).phase, Phase::kSucceeded);
  EXPECT_EQ(Judge(Message(R"("result":{"structuredContent":{"ok":false}})"), tool).phase,
            Phase::kUncertain);
  EXPECT_EQ(Judge(Message(R"("result":{"content":[{"type":"text","text":"{\"ok\":true}"}]})"), tool)
                .phase,
            Phase::kSucceeded);
}

TEST(McpOutcomeTest, OnlyAResultUndoes) {
  const auto judge = [](const Answer& answer, const UndoRule* rule = nullptr) {
    return JudgeUndoBy(rule, answer, false).phase;
  };
  EXPECT_EQ(judge(kDone), Phase::kSucceeded);
  EXPECT_EQ(judge(Failure("busy")), Phase::kUncertain);
  EXPECT_EQ(judge(Error(-32602)), Phase::kRejected);
  EXPECT_EQ(judge(Error(-32603)), Phase::kUncertain);
  EXPECT_EQ(judge(OverHttp(500)), Phase::kUncertain);
  EXPECT_EQ(judge(Message(R"("result":{"resultType":"task","taskId":"t"})")), Phase::kUncertain);
  EXPECT_EQ(judge(Message(R"("result":{"resultType":"input_required"})")), Phase::kRejected);
  // Whatever the rule takes for done: that the session or the server is gone undoes nothing.
  UndoRule rule;
  rule.done.Add(200, 499);
  EXPECT_EQ(judge(OverHttp(404), &rule), Phase::kRejected);
  EXPECT_EQ(judge(Error(-32001, 404), &rule), Phase::kRejected);
  EXPECT_EQ(judge(OverHttp(400), &rule), Phase::kRejected);
  EXPECT_EQ(judge(kDone, &rule), Phase::kSucceeded);
  // A refused repeat proves nothing.
  EXPECT_EQ(JudgeUndoBy(nullptr, Error(-32602), true).phase, Phase::kUncertain);
}

TEST(McpOutcomeTest, AToolMaySayThatItsWorkIsUndoneAlready) {
  UndoRule rule;
  rule.done.Add(200, 299);
  rule.done_when.push_back(Holds("answer.body#/state == \"cancelled\""));
  EXPECT_EQ(JudgeUndoBy(&rule, Failure(R"({\"state\":\"cancelled\"})"), false).phase,
            Phase::kSucceeded);
  EXPECT_EQ(JudgeUndoBy(&rule, Failure(R"({\"state\":\"shipped\"})"), false).phase,
            Phase::kUncertain);
  EXPECT_EQ(
      JudgeUndoBy(&rule, Message(R"("result":{"structuredContent":{"state":"x"}})"), false).phase,
      Phase::kRejected);
}

TEST(McpOutcomeTest, OnlyAResultSettles) {
  SettleRule rule;
  rule.happened.source = Selector::Source::kAnswerBody;
  rule.happened.name = "/id";
  const auto judge = [&](const Answer& answer) { return JudgeProbe(rule, answer).verdict; };
  EXPECT_EQ(judge(kDone), ProbeVerdict::kPresent);
  EXPECT_EQ(JudgeProbe(rule, kDone).external_ref, "r1");
  EXPECT_EQ(judge(Message(R"("result":{"structuredContent":{}})")), ProbeVerdict::kNothing);
  rule.absent = {Holds("answer.body#/found == false")};
  EXPECT_EQ(judge(Message(R"("result":{"structuredContent":{"found":false}})")),
            ProbeVerdict::kAbsent);
  for (const Answer& answer : {OverHttp(404), Error(-32001, 404), Error(-32602),
                               Failure(R"({\"id\":\"r1\"})"), OverHttp(400)}) {
    EXPECT_EQ(judge(answer), ProbeVerdict::kNothing) << answer.response.body;
  }
}

Selector At(std::string pointer) {
  return {Selector::Source::kAnswerBody, pointer, "answer.body#" + pointer};
}

TEST(McpOutcomeTest, WhatIsTakenOutOfTheOutputIsTakenOutOfItsTextsToo) {
  const auto kept = [](const std::string& result) {
    return StoredResponse(Message("\"result\":" + result), {}, {At("/token")});
  };
  const auto both =
      kept(R"({"structuredContent":{"token":"s3cret","id":1},)"
           R"("content":[{"type":"text","text":"{\"token\":\"s3cret\",\"id\":1}"}]})");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->body.find("s3cret"), std::string::npos) << both->body;
  EXPECT_TRUE(ParseJson(both->body));
  EXPECT_EQ(*FindHeader(both->headers, "Recourse-Redacted"), "answer.body#/token");
  const auto text = kept(R"({"content":[{"type":"text","text":"{\"token\":[\"s3cret\"]}"}]})");
  ASSERT_TRUE(text);
  EXPECT_EQ(text->body.find("s3cret"), std::string::npos);
  // Words that may tell it.
  EXPECT_FALSE(kept(R"({"content":[{"type":"text","text":"your token: s3cret"}]})"));
  EXPECT_FALSE(kept(R"({"structuredContent":{"token":"s3cret"},)"
                    R"("content":[{"type":"text","text":"use s3cret"}]})"));
  EXPECT_TRUE(kept(
      R"({"structuredContent":{"token":"s3cret"},"content":[{"type":"text","text":"done"}]})"));
}

}  // namespace
}  // namespace recourse::mcp_outcome_test
