// The undo request that leaves: rendered when the step succeeded, completed when it is sent.
#include <gtest/gtest.h>

#include "filters/call/outcome.h"
#include "filters/saga/undo_plan.h"
#include "filters/saga/undo_sender.h"
#include "filters/settle/probe.h"
#include "policy/undo/undo_choice.h"

namespace recourse::undo_request_test {
namespace {

Event StepWith(RenderedRequest undo) {
  Event step;
  step.operation = 7;
  step.tool = "t";
  step.undo = std::move(undo);
  return step;
}

Backend BackendWithKey() {
  Backend backend;
  backend.base_path = "/api";
  backend.key.at = {RequestPlace::Where::kHeader, "Idempotency-Key"};
  return backend;
}

std::expected<std::string, std::string> NoSecret(const std::string&) {
  return std::unexpected("it cannot be read");
}

UndoRule RuleOf(const char* line) {
  UndoRule rule;
  rule.request = *ParseRequestLine(line);
  return rule;
}

TEST(UndoRequestTest, TheStoredRequestIsSentWhateverThePolicySaysNow) {  // T16
  const Event step = StepWith({"DELETE", "/orders/7?hard=1", {{"X-Why", "broken"}}, ""});
  const UndoRule edited = RuleOf("POST /orders/all/purge");
  const auto request = UndoRequest(step, &edited, BackendWithKey(), NoSecret);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "DELETE");
  EXPECT_EQ(request->target, "/api/orders/7?hard=1");
  EXPECT_EQ(*FindHeader(request->headers, "X-Why"), "broken");
  EXPECT_EQ(*FindHeader(request->headers, "Idempotency-Key"), ToHex(UndoKeyOf(step.key, 7)));
}

TEST(UndoRequestTest, ASecretIsReadWhenTheRequestIsSentAndNeverShown) {
  const Event step = StepWith({"DELETE", "/orders/7", {}, ""});
  UndoRule rule = RuleOf("DELETE /orders/{external_ref}");
  rule.secrets = {{"Authorization", "/run/token", "Bearer "}};
  const auto read = [](const std::string& file) { return "of" + file; };
  const auto request = UndoRequest(step, &rule, BackendWithKey(), read);
  ASSERT_TRUE(request);
  EXPECT_EQ(*FindHeader(request->headers, "Authorization"), "Bearer of/run/token");
  const HttpRequest preview = UndoPreview(step, &rule, BackendWithKey());
  EXPECT_EQ(*FindHeader(preview.headers, "Authorization"), "(hidden)");
  EXPECT_FALSE(UndoRequest(step, &rule, BackendWithKey(), NoSecret));
  const auto split = [](const std::string&) { return std::string("a\r\nX-Evil: 1"); };
  EXPECT_FALSE(UndoRequest(step, &rule, BackendWithKey(), split));
}

// What becomes of a POST with that answer, whose undo keeps the agent's Authorization.
Transition After(const Tool& tool, const Headers& headers, Phase phase) {
  Answer answer;
  answer.response.status = 201;
  answer.response.body = R"({"id":"o7"})";
  const Json body = *ParseJson(answer.response.body);
  CallValues values;
  values.headers = &headers;
  values.answer_status = 201;
  values.answer_body = &body;
  Verdict verdict;
  verdict.phase = phase;
  return MakeTransition(Event(), verdict, tool, answer, values);
}

Tool ToolWithFromCall() {
  Tool tool;
  tool.external_ref = *ParseSelector("answer.body#/id");
  tool.undo = RuleOf("DELETE /orders/{external_ref}");
  tool.undo->from_call = {"Authorization"};
  return tool;
}

TEST(UndoRequestTest, TheAgentsCredentialsAreKeptWithTheUndoWhereThePolicySaysSo) {
  const Headers headers{{"authorization", "Bearer agent"}, {"Cookie", "sid=1"}};
  Tool tool = ToolWithFromCall();
  const auto kept = After(tool, headers, Phase::kSucceeded).undo;
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->headers, (Headers{{"Authorization", "Bearer agent"}}));
  const auto preview = UndoPreview(StepWith(*kept), &*tool.undo, BackendWithKey());
  EXPECT_EQ(*FindHeader(preview.headers, "Authorization"), "(hidden)");
  // A call without them worked, so its undo may.
  EXPECT_TRUE(After(tool, {}, Phase::kSucceeded).undo->headers.empty());
  tool.undo->from_call.clear();
  EXPECT_TRUE(After(tool, headers, Phase::kSucceeded).undo->headers.empty());
}

TEST(UndoRequestTest, AnUndoThatASettleRequestMadePossibleHasItsCredentials) {
  const Tool tool = ToolWithFromCall();
  Event uncertain;
  uncertain.phase = Phase::kUncertain;
  uncertain.settle =
      RenderedRequest{"GET", "/orders?ref=x", {{"Authorization", "Bearer agent"}}, ""};
  const auto undo = PresentTransition(uncertain, {.external_ref = "o7"}, tool).undo;
  ASSERT_TRUE(undo);
  EXPECT_EQ(undo->target, "/orders/o7");
  EXPECT_EQ(undo->headers, (Headers{{"Authorization", "Bearer agent"}}));
}

TEST(UndoRequestTest, AnUnknownStepKeepsItsUndoForTheReferenceThatIsFoundLater) {
  Tool tool = ToolWithFromCall();
  tool.undo->request = *ParseRequestLine("DELETE /{header.X-Shop}/orders/{external_ref}");
  Event dispatching;
  const Headers headers{{"X-Shop", "s1"}, {"Authorization", "Bearer agent"}};
  CallValues values;
  values.headers = &headers;
  Verdict verdict;
  verdict.phase = Phase::kUncertain;
  const Result<Answer> lost = std::unexpected(Error(ErrorCode::kBackendReset, "lost"));
  const auto kept = MakeTransition(dispatching, verdict, tool, lost, values).undo;
  ASSERT_TRUE(kept);
  Event uncertain = StepWith(*kept);
  EXPECT_EQ(DecideUndo(uncertain, &tool, nullptr).kind, UndoDecision::Kind::kPark);
  const auto undo = PresentTransition(uncertain, {.external_ref = "o7"}, tool).undo;
  ASSERT_TRUE(undo);
  EXPECT_EQ(undo->target, "/s1/orders/o7");
  EXPECT_EQ(*FindHeader(undo->headers, "Authorization"), "Bearer agent");
  EXPECT_EQ(DecideUndo(StepWith(*undo), &tool, nullptr).kind, UndoDecision::Kind::kSend);
  // One that cannot stand there leaves the request as it was, and the step parked.
  EXPECT_FALSE(PresentTransition(uncertain, {.external_ref = "../x"}, tool).undo);
}

TEST(UndoRequestTest, AnAnswerOf200ThatSaysNoIsNoUndo) {
  UndoRule rule = RuleOf("POST /chat.delete");
  rule.done.Add(200, 299);
  rule.done_when = {*ParseCondition("answer.body#/ok == true"),
                    *ParseCondition("answer.body#/error == \"message_not_found\"")};
  struct Row {
    const char* body;
    Phase first, again;
  };
  const Row rows[] = {
      {R"({"ok":true})", Phase::kSucceeded, Phase::kSucceeded},
      {R"({"ok":false,"error":"message_not_found"})", Phase::kSucceeded, Phase::kSucceeded},
      {R"({"ok":false,"error":"cant_delete_message"})", Phase::kRejected, Phase::kUncertain},
      {R"({"other":1})", Phase::kUncertain, Phase::kUncertain},
      {"not json", Phase::kUncertain, Phase::kUncertain},
  };
  for (const Row& row : rows) {
    Answer answer;
    answer.response.status = 200;
    answer.response.body = row.body;
    EXPECT_EQ(JudgeUndoBy(&rule, answer, false).phase, row.first) << row.body;
    EXPECT_EQ(JudgeUndoBy(&rule, answer, true).phase, row.again) << row.body;
    EXPECT_EQ(JudgeUndoBy(nullptr, answer, false).phase, Phase::kSucceeded);
  }
  Answer refused;
  refused.response.status = 404;
  refused.response.body = R"({"ok":true})";
  EXPECT_EQ(JudgeUndoBy(&rule, refused, false).phase, Phase::kRejected);
}

TEST(UndoRequestTest, WordsOfTheBackendMayMeanUndoneWhateverTheStatus) {
  UndoRule rule = RuleOf("POST /void");
  rule.done.Add(200, 299);
  rule.done_if = {*ParseCondition("answer.body#/issue == \"PREVIOUSLY_VOIDED\""),
                  *ParseCondition("answer.status == 410")};
  const auto phase = [&](int status, const std::string& body, bool is_resend = false) {
    Answer answer;
    answer.response.status = status;
    answer.response.body = body;
    return JudgeUndoBy(&rule, answer, is_resend).phase;
  };
  EXPECT_EQ(phase(422, R"({"issue":"PREVIOUSLY_VOIDED"})"), Phase::kSucceeded);
  EXPECT_EQ(phase(422, R"({"issue":"PREVIOUSLY_VOIDED"})", true), Phase::kSucceeded);
  EXPECT_EQ(phase(422, R"({"issue":"PREVIOUSLY_CAPTURED"})"), Phase::kRejected);
  EXPECT_EQ(phase(410, ""), Phase::kSucceeded);
  EXPECT_EQ(phase(200, ""), Phase::kSucceeded);
  EXPECT_EQ(phase(500, ""), Phase::kUncertain);
}

TEST(UndoRequestTest, OneOfSeveralIsChosenByWhatIsKnownAndNeverGuessed) {
  Tool tool;
  tool.undo = RuleOf("POST /cancel");
  tool.undo->when = {*ParseCondition("answer.body#/status == \"held\"")};
  tool.other_undos = {RuleOf("POST /refund")};
  const auto target = [&](const std::string& text) {
    const auto body = ParseJson(text);
    CallValues values;
    values.answer_body = body ? &*body : nullptr;
    const auto undo = RenderUndo(tool, values);
    if (!undo) return std::string(undo.error().detail());
    EXPECT_EQ(UndoOf(&tool, *undo)->request.source, undo->method + " " + undo->target);
    return undo->target;
  };
  EXPECT_EQ(target(R"({"status":"held"})"), "/cancel");
  EXPECT_EQ(target(R"({"status":"done"})"), "/refund");
  EXPECT_EQ(target("{}"), "a `when` of the undo cannot be read");
  tool.other_undos[0].when = {*ParseCondition("answer.body#/status == \"done\"")};
  EXPECT_EQ(target(R"({"status":"odd"})"), "no `when` of the undo holds");
  EXPECT_EQ(UndoOf(&tool, RenderedRequest{}), nullptr);
}

TEST(UndoRequestTest, OneIsChosenByWhatWasThereBefore) {
  Tool tool;
  tool.undo = RuleOf("POST /reopen");
  tool.undo->when = {*ParseCondition("before.body#/open == true")};
  const auto target = [&](const Snapshot* before) {
    CallValues values;
    values.before = before;
    const auto undo = RenderUndo(tool, values);
    return undo ? undo->target : std::string(undo.error().detail());
  };
  const Snapshot open{.places = {{"/open", "true"}}}, shut{.places = {{"/open", "false"}}};
  EXPECT_EQ(target(&open), "/reopen");
  EXPECT_EQ(target(&shut), "no `when` of the undo holds");
  EXPECT_EQ(target(nullptr), "a `when` of the undo cannot be read");
}

// Nobody has the answer of a write whose outcome a probe told: what that shows of it chooses.
TEST(UndoRequestTest, OneIsChosenByWhatAProbeShows) {
  Tool tool;
  tool.external_ref = *ParseSelector("answer.body#/payment/id");
  tool.undo = RuleOf("POST /cancel/{external_ref}");
  tool.undo->when = {*ParseCondition("answer.body#/payment/status == \"held\"")};
  tool.other_undos = {RuleOf("POST /refund/{external_ref}")};
  Event uncertain;
  uncertain.phase = Phase::kUncertain;
  const auto target = [&](const std::string& found, const std::string& at) {
    ProbeReading reading{ProbeVerdict::kPresent, "p1", *ParseJson(found), at};
    const auto undo = PresentTransition(uncertain, FindingOf(reading, tool), tool).undo;
    return undo ? undo->target : std::string();
  };
  EXPECT_EQ(target(R"({"payment":{"id":"p1","status":"held"}})", "/payment/id"), "/cancel/p1");
  EXPECT_EQ(target(R"({"id":"p1","status":"held"})", "/id"), "/cancel/p1");
  EXPECT_EQ(target(R"({"id":"p1","status":"done"})", "/id"), "/refund/p1");
  EXPECT_EQ(target(R"({"data":[{"payment":{"id":"p1","status":"held"}}]})", "/data/0/payment/id"),
            "/cancel/p1");
  EXPECT_EQ(target(R"({"id":"p1"})", "/id"), "") << "it says nothing of the state";
  EXPECT_EQ(target(R"({"found":"p1","status":"held"})", "/found"), "") << "another shape";
}

}  // namespace
}  // namespace recourse::undo_request_test
