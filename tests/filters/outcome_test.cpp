// What an attempt's end proves (corpus 4-R), row by row.
#include "filters/call/outcome.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "filters/call/call_values.h"
#include "filters/call/key_placeholder.h"

namespace recourse::outcome_test {
namespace {

Answer AnswerOf(int status, std::string body = R"({"ok":true})") {
  Answer answer;
  answer.response.status = status;
  answer.response.body = std::move(body);
  return answer;
}

Result<Answer> Failed(ErrorCode code, Delivery delivery) {
  return std::unexpected(Error(code, {}, delivery));
}

Tool ToolWith(std::vector<const char*> success_when, std::vector<std::string> not_executed = {}) {
  Tool tool;
  for (const char* text : success_when) {
    auto condition = ParseCondition(text);
    EXPECT_TRUE(condition.has_value()) << text;
    tool.success_when.push_back(std::move(*condition));
  }
  if (!not_executed.empty()) tool.not_executed = *ParseStatuses(not_executed);
  return tool;
}

CallValues ValuesOf(const Result<Answer>& result, std::optional<Json>& body) {
  CallValues values;
  if (!result) return values;
  body = ReadAnswerBody(*result);
  values.answer_status = result->response.status;
  values.answer_headers = &result->response.headers;
  values.answer_body = body ? &*body : nullptr;
  return values;
}

Verdict Judge(const Tool& tool, const Result<Answer>& result) {
  std::optional<Json> body;
  return Classify(tool, result, ValuesOf(result, body));
}

constexpr std::optional<ErrorCode> kPassedOn = std::nullopt;

TEST(OutcomeTest, AResendWithoutAnEffectLeavesTheEarlierAttemptUnknown) {
  for (const Phase phase : {Phase::kNotSent, Phase::kSucceeded, Phase::kRejected,
                            Phase::kAnswerLost, Phase::kUncertain}) {
    for (const std::optional<ErrorCode> problem :
         {std::optional<ErrorCode>(), std::optional(ErrorCode::kNotSent)}) {
      Verdict verdict;
      verdict.phase = phase;
      verdict.problem = problem;
      const Verdict resend = OfResend(verdict, {}, {}, {}, {});
      const bool proves_nothing = phase == Phase::kNotSent || phase == Phase::kRejected;
      EXPECT_EQ(resend.phase, proves_nothing ? Phase::kUncertain : phase) << NameOf(phase);
      EXPECT_EQ(resend.problem, proves_nothing && problem ? ErrorCode::kOutcomeUnknown : problem)
          << NameOf(phase);
    }
  }
}

KeyRule RuleWith(const char* hit) {
  KeyRule rule;
  rule.at = {RequestPlace::Where::kBody, "/id"};
  rule.hit = {*ParseCondition(hit)};
  return rule;
}

TEST(OutcomeTest, AKeyThatIsKnownProvesTheEffectWhereItIsOursAndNobodyElseCanTell) {
  const KeyRule rule = RuleWith("answer.status == 409");
  const auto phase = [&](int status, std::optional<std::string> key, const Tool& tool) {
    Event resend;
    resend.key_field = std::move(key);
    const Result<Answer> result = AnswerOf(status);
    std::optional<Json> body;
    const CallValues values = ValuesOf(result, body);
    return OfResend(Classify(tool, result, values), rule, tool, resend, values);
  };
  const Verdict hit = phase(409, "", {});
  EXPECT_EQ(hit.phase, Phase::kAnswerLost);
  EXPECT_EQ(hit.problem, ErrorCode::kAnswerLost);
  EXPECT_EQ(hit.tells, Verdict::Tells::kNothing);
  EXPECT_EQ(phase(409, "mine", {}).phase, Phase::kUncertain) << "others may have used it";
  EXPECT_EQ(phase(409, std::nullopt, {}).phase, Phase::kUncertain);
  EXPECT_EQ(phase(422, "", {}).phase, Phase::kUncertain);
  EXPECT_EQ(phase(201, "", {}).phase, Phase::kSucceeded);
  Tool settled;
  settled.settle.emplace();
  EXPECT_EQ(phase(409, "", settled).phase, Phase::kUncertain) << "the probe tells more";
}

// A stored failure is told again with the same field as a stored success.
TEST(OutcomeTest, OfAnErrorAFieldTellsOnlyThatTheKeyWasKnown) {
  const KeyRule rule = RuleWith("answer.header.X-Replayed == true");
  Event resend;
  resend.key_field = "";
  for (const int status : {400, 402, 409, 422, 429, 500}) {
    Answer answer;
    answer.response.status = status;
    answer.response.headers = {{"X-Replayed", "true"}};
    answer.body_complete = true;
    const Result<Answer> result = answer;
    CallValues values;
    values.answer_status = status;
    values.answer_headers = &result->response.headers;
    const Verdict verdict = OfResend(Classify({}, result, values), rule, {}, resend, values);
    EXPECT_EQ(verdict.phase, Phase::kUncertain) << status;
  }
}

TEST(OutcomeTest, WhatATwinsRefusalTellsIsNeverTakenForTheCallsAnswer) {
  // An id in the refusal is not that of what was made.
  const Result<Answer> result = AnswerOf(409, R"({"id":"req_1"})");
  std::optional<Json> body;
  const CallValues values = ValuesOf(result, body);
  Tool tool;
  tool.external_ref = *ParseSelector("answer.body#/id");
  tool.undo.emplace();
  tool.undo->request = *ParseRequestLine("DELETE /e/{external_ref}");
  Event resend;
  resend.key_field = "";
  const Verdict hit = OfResend(Classify(tool, result, values), RuleWith("answer.status == 409"),
                               tool, resend, values);
  const Transition transition = MakeTransition(resend, hit, tool, result, values);
  EXPECT_EQ(transition.to, Phase::kAnswerLost);
  EXPECT_FALSE(transition.undo);
  EXPECT_EQ(transition.external_ref, "");
}

TEST(OutcomeTest, WhatIsAnsweredLaterIsNotWhatTheCallLeft) {
  KeyRule rule;
  rule.answers_latest = true;
  Tool tool;
  tool.before.emplace();
  tool.before->keep = {*ParseSelector("body#/title")};
  Event resend;
  resend.state.emplace();
  resend.state->ours.places = {{"/title", "\"ours\""}};
  const Result<Answer> result = AnswerOf(200, R"({"title":"somebody else's"})");
  std::optional<Json> body;
  const CallValues values = ValuesOf(result, body);
  const auto left = [&](const KeyRule& key) {
    const Verdict verdict = OfResend(Classify(tool, result, values), key, tool, resend, values);
    return MakeTransition(resend, verdict, tool, result, values).ours;
  };
  EXPECT_TRUE(left({}).has_value());
  EXPECT_FALSE(left(rule).has_value()) << "it stays as it was planned";
}

TEST(OutcomeTest, AnErrorThatMeansItHappenedIsLookedInto) {
  Tool tool;
  tool.happened_if = {*ParseCondition("answer.body#/code == \"exists\"")};
  const auto phase = [&](Cause cause, const std::string& asks, const char* code) {
    Event dispatching;
    dispatching.cause = cause;
    dispatching.key_field = "";
    dispatching.settle = RenderedRequest{"GET", asks, {}, {}};
    const Result<Answer> result = AnswerOf(422, std::string(R"({"code":")") + code + "\"}");
    std::optional<Json> body;
    const CallValues values = ValuesOf(result, body);
    return OfTwin(Classify(tool, result, values), tool, dispatching, values).phase;
  };
  EXPECT_EQ(phase(Cause::kResend, "/x", "exists"), Phase::kUncertain);
  EXPECT_EQ(phase(Cause::kFirstCall, "/x", "exists"), Phase::kRejected) << "somebody else's";
  EXPECT_EQ(phase(Cause::kFirstCall, "/x?k=" + KeyPlaceholder(), "exists"), Phase::kUncertain);
  EXPECT_EQ(phase(Cause::kResend, "/x", "other"), Phase::kRejected);
}

Answer StreamOf(std::string body = "data: 1\n\n") {
  Answer answer = AnswerOf(200, std::move(body));
  answer.response.headers.emplace_back("Content-Type", "Text/Event-Stream; charset=utf-8");
  return answer;
}

TEST(OutcomeTest, AStreamThatWasCutProvesNothingOfItsEnd) {
  for (const bool relayed : {false, true}) {
    Answer answer = StreamOf();
    answer.relayed = relayed;
    answer.body_complete = false;
    const Verdict cut = Judge(Tool(), answer);
    EXPECT_EQ(cut.phase, Phase::kUncertain);
    EXPECT_EQ(cut.cause, Cause::kConnectionLost);
    EXPECT_EQ(cut.http_status, 200);
    EXPECT_EQ(cut.problem, ErrorCode::kOutcomeUnknown);
    answer.timed_out = true;
    EXPECT_EQ(Judge(Tool(), answer).cause, Cause::kTimeout);
  }
  // What the policy has streamed, whatever it is.
  Answer answer = AnswerOf(200);
  answer.body_complete = false;
  EXPECT_EQ(Judge(Tool(), answer).phase, Phase::kAnswerLost);
  answer.relayed = true;
  EXPECT_EQ(Judge(Tool(), answer).phase, Phase::kUncertain);
}

TEST(OutcomeTest, AStreamThatPassedIsAnAnswerHoweverLargeItWas) {
  Answer answer = StreamOf("");
  answer.over_cap = true;
  EXPECT_EQ(Judge(Tool(), answer).problem, ErrorCode::kAnswerNotKept);
  answer.relayed = true;
  const Result<Answer> result = answer;
  const Verdict verdict = Judge(Tool(), result);
  EXPECT_EQ(verdict.phase, Phase::kSucceeded);
  EXPECT_EQ(verdict.problem, kPassedOn);
  EXPECT_FALSE(MakeTransition(Event(), verdict, Tool(), result, CallValues()).answer_kept);
  answer.body_complete = false;
  EXPECT_EQ(Judge(Tool(), answer).phase, Phase::kUncertain);
}

TEST(OutcomeTest, AnAnswerOf200ThatSaysNoIsARefusalWhereThePolicySaysHowToSee) {
  Tool tool = ToolWith({"answer.body#/ok == true"});
  tool.failed_when = {*ParseCondition("answer.body#/ok == false")};
  EXPECT_TRUE(ReadsAnswerBody(tool));
  const Verdict refused = Judge(tool, AnswerOf(200, R"({"ok":false,"error":"not_in_channel"})"));
  EXPECT_EQ(refused.phase, Phase::kRejected);
  EXPECT_EQ(refused.problem, kPassedOn);
  EXPECT_EQ(Judge(tool, AnswerOf(200, R"({"ok":true})")).phase, Phase::kSucceeded);
  EXPECT_EQ(Judge(tool, AnswerOf(200, R"({"other":1})")).phase, Phase::kUncertain);
  EXPECT_EQ(Judge(tool, AnswerOf(500, R"({"ok":false})")).phase, Phase::kUncertain);
}

TEST(OutcomeTest, FailuresWithoutAnAnswer) {
  struct Row {
    ErrorCode code;
    Delivery delivery;
    Phase phase;
    Cause cause;
    ErrorCode problem;
    int status;
  };
  const Row rows[] = {
      {ErrorCode::kNotSent, Delivery::kNotSent, Phase::kNotSent, Cause::kConnectFailed,
       ErrorCode::kNotSent, 0},
      {ErrorCode::kBackendReset, Delivery::kNotSent, Phase::kNotSent, Cause::kConnectFailed,
       ErrorCode::kNotSent, 0},
      {ErrorCode::kLoop, Delivery::kNotSent, Phase::kNotSent, Cause::kCanceled, ErrorCode::kLoop,
       0},
      {ErrorCode::kDraining, Delivery::kNotSent, Phase::kNotSent, Cause::kCanceled,
       ErrorCode::kDraining, 0},
      {ErrorCode::kBackendTimeout, Delivery::kUncertain, Phase::kUncertain, Cause::kTimeout,
       ErrorCode::kOutcomeUnknown, 504},
      {ErrorCode::kBackendReset, Delivery::kUncertain, Phase::kUncertain, Cause::kConnectionLost,
       ErrorCode::kOutcomeUnknown, 502},
      {ErrorCode::kBackendProtocol, Delivery::kUncertain, Phase::kUncertain, Cause::kProtocolError,
       ErrorCode::kOutcomeUnknown, 502},
      {ErrorCode::kNotSent, Delivery::kUncertain, Phase::kUncertain, Cause::kConnectionLost,
       ErrorCode::kOutcomeUnknown, 502},
      {ErrorCode::kInternal, Delivery::kAnswered, Phase::kUncertain, Cause::kConnectionLost,
       ErrorCode::kOutcomeUnknown, 502},
  };
  for (const Row& row : rows) {
    const Verdict verdict = Judge(Tool(), Failed(row.code, row.delivery));
    EXPECT_EQ(verdict.phase, row.phase) << FactsOf(row.code).slug;
    EXPECT_EQ(verdict.cause, row.cause) << FactsOf(row.code).slug;
    EXPECT_EQ(verdict.problem, row.problem) << FactsOf(row.code).slug;
    EXPECT_EQ(verdict.problem_status, row.status) << FactsOf(row.code).slug;
    if (row.status != 0) {
      EXPECT_EQ(std::ranges::count(FactsOf(row.problem).other_statuses, row.status), 1);
    }
    EXPECT_FALSE(verdict.detail.empty());
  }
}

// What every status means when the policy says nothing about it.
Phase PhaseOfStatus(int status) {
  static const std::vector<int> rejected = {307, 308, 400, 402, 403, 404, 405, 406,
                                            410, 411, 413, 414, 415, 416, 417, 421,
                                            422, 423, 424, 426, 431, 451, 501, 505};
  static const std::vector<int> comes_again = {401, 407, 412, 425, 428, 429};
  if (status == 206 || status == 207) return Phase::kUncertain;
  if (status >= 200 && status <= 299) return Phase::kSucceeded;
  if (std::ranges::count(comes_again, status) > 0) return Phase::kNotSent;
  return std::ranges::count(rejected, status) > 0 ? Phase::kRejected : Phase::kUncertain;
}

TEST(OutcomeTest, EveryStatusHasThePhaseOfTheTable) {
  for (int status = 101; status <= 599; ++status) {
    const Verdict verdict = Judge(Tool(), AnswerOf(status));
    EXPECT_EQ(verdict.phase, PhaseOfStatus(status)) << status;
    EXPECT_EQ(verdict.cause == Cause::kRejectedNow, status == 402 || status == 403) << status;
    if (status < 200) {
      EXPECT_EQ(verdict.problem, ErrorCode::kOutcomeUnknown) << status;
      EXPECT_EQ(verdict.problem_status, 502) << status;
    } else {
      EXPECT_EQ(verdict.problem, kPassedOn) << status;
      EXPECT_EQ(verdict.http_status, status);
    }
  }
}

TEST(OutcomeTest, ListedStatusesProveThatNothingWasDone) {
  const Tool tool = ToolWith({}, {"503", "409"});
  for (const int status : {503, 409}) {
    const Verdict verdict = Judge(tool, AnswerOf(status));
    EXPECT_EQ(verdict.phase, Phase::kNotSent) << status;
    EXPECT_EQ(verdict.problem, kPassedOn) << status;
  }
  EXPECT_EQ(Judge(tool, AnswerOf(500)).phase, Phase::kUncertain);
}

TEST(OutcomeTest, AFieldSaysWhetherAFailureMayBeRepeated) {
  Tool tool;
  Backend plain, keyed;
  plain.repeat_if = keyed.repeat_if = {*ParseCondition("answer.header.Should-Retry == true")};
  keyed.key.at = {RequestPlace::Where::kHeader, "Idempotency-Key"};
  const auto phase = [&](int status, const char* word, const Backend& backend) {
    Answer answer = AnswerOf(status);
    answer.response.headers.emplace_back("Should-Retry", word);
    const Result<Answer> result = answer;
    std::optional<Json> body;
    return Classify(tool, result, ValuesOf(result, body), &backend).phase;
  };
  EXPECT_EQ(phase(500, "true", plain), Phase::kNotSent);
  EXPECT_EQ(phase(500, "false", plain), Phase::kUncertain);
  EXPECT_EQ(phase(500, "true", keyed), Phase::kUncertain) << "its repeat is sent under its key";
  EXPECT_EQ(phase(422, "true", keyed), Phase::kNotSent);
  EXPECT_EQ(phase(422, "false", keyed), Phase::kRejected);
  EXPECT_EQ(phase(201, "true", plain), Phase::kSucceeded);
  tool.repeat_if = {*ParseCondition("answer.body#/ok == true")};
  EXPECT_EQ(phase(500, "false", plain), Phase::kNotSent);
  EXPECT_TRUE(ReadsAnswerBody(tool));
  EXPECT_FALSE(ReadsAnswerBody(Tool(), &plain));
}

TEST(OutcomeTest, SuccessWhenDecidesOver2xx) {
  const Tool tool = ToolWith({"answer.body#/ok == true"});
  EXPECT_EQ(Judge(tool, AnswerOf(200, R"({"ok":true})")).phase, Phase::kSucceeded);
  EXPECT_EQ(Judge(tool, AnswerOf(207, R"({"ok":true})")).phase, Phase::kSucceeded);
  for (const char* body : {R"({"ok":false})", "{}", "", "<html>login</html>", "{\"ok\":"}) {
    const Verdict verdict = Judge(tool, AnswerOf(200, body));
    EXPECT_EQ(verdict.phase, Phase::kUncertain) << body;
    EXPECT_EQ(verdict.problem, kPassedOn) << body;
  }
  Answer packed = AnswerOf(200);
  packed.response.headers.emplace_back("Content-Encoding", "gzip");
  EXPECT_EQ(Judge(tool, packed).phase, Phase::kUncertain) << "an encoded body cannot be read";
  EXPECT_EQ(Judge(tool, AnswerOf(422)).phase, Phase::kRejected) << "conditions are about 2xx";
}

TEST(OutcomeTest, AcceptedIsASuccessUnlessAProbeWillTell) {
  EXPECT_EQ(Judge(Tool(), AnswerOf(202)).phase, Phase::kSucceeded);
  Tool tool;
  tool.settle.emplace();
  EXPECT_EQ(Judge(tool, AnswerOf(202)).phase, Phase::kUncertain);
  EXPECT_EQ(Judge(tool, AnswerOf(202)).problem, kPassedOn);
  EXPECT_EQ(Judge(tool, AnswerOf(201)).phase, Phase::kSucceeded);
  Tool confirmed = ToolWith({"answer.body#/ok == true"});
  confirmed.settle.emplace();
  EXPECT_EQ(Judge(confirmed, AnswerOf(202)).phase, Phase::kSucceeded);
}

TEST(OutcomeTest, ACutBodyAfterSuccessIsALostAnswer) {
  Answer cut = AnswerOf(201);
  cut.body_complete = false;
  EXPECT_EQ(Judge(Tool(), cut).phase, Phase::kAnswerLost);
  EXPECT_EQ(Judge(Tool(), cut).problem, ErrorCode::kAnswerLost);
  EXPECT_EQ(Judge(ToolWith({"answer.body#/ok == true"}), cut).phase, Phase::kUncertain);
  EXPECT_EQ(Judge(ToolWith({"answer.status == 201"}), cut).phase, Phase::kAnswerLost);
}

TEST(OutcomeTest, AnAnswerOverTheCapSucceededButIsNotKept) {
  Answer large = AnswerOf(200);
  large.over_cap = true;
  const Verdict verdict = Judge(Tool(), large);
  EXPECT_EQ(verdict.phase, Phase::kSucceeded);
  EXPECT_EQ(verdict.problem, ErrorCode::kAnswerNotKept);
  EXPECT_FALSE(MakeTransition(Event(), verdict, Tool(), large, CallValues()).answer_kept);
}

TEST(OutcomeTest, ACutRefusalIsStillARefusal) {
  Answer cut = AnswerOf(422);
  cut.body_complete = false;
  EXPECT_EQ(Judge(Tool(), cut).phase, Phase::kRejected);
  EXPECT_EQ(Judge(Tool(), cut).problem, ErrorCode::kBackendReset);
  cut.response.status = 409;
  EXPECT_EQ(Judge(Tool(), cut).phase, Phase::kUncertain);
  EXPECT_EQ(Judge(Tool(), cut).problem, ErrorCode::kOutcomeUnknown);
}

TEST(OutcomeTest, TheKeptAnswerHasNoCookiesAndNoFieldsOfOurs) {
  Answer answer = AnswerOf(201);
  answer.response.headers = {{"Location", "/orders/1"},
                             {"Set-Cookie", "a=b"},
                             {"recourse-outcome", "executed"},
                             {"Idempotent-Replayed", "true"},
                             {"X-Accel-Redirect", "/secret"}};
  const Transition transition =
      MakeTransition(Event(), Judge(Tool(), answer), Tool(), answer, CallValues());
  EXPECT_TRUE(transition.answer_kept);
  EXPECT_EQ(transition.answer.headers, (Headers{{"Location", "/orders/1"}}));
}

TEST(OutcomeTest, AnAnswerOneByteOverWhatIsKeptIsPassedOnButNotKept) {
  Answer answer = AnswerOf(201, std::string(limits::kAnswerKeptBytesMax, 'x'));
  const auto is_kept = [&] {
    return MakeTransition(Event(), Judge(Tool(), answer), Tool(), answer, CallValues()).answer_kept;
  };
  EXPECT_TRUE(is_kept());
  answer.response.body += 'x';
  EXPECT_FALSE(is_kept());
  EXPECT_EQ(Judge(Tool(), answer).problem, kPassedOn);
}

TEST(OutcomeTest, TheExternalRefAndTheUndoRequestAreMadeFromTheAnswer) {
  Tool tool;
  tool.external_ref = *ParseSelector("answer.body#/id");
  tool.undo.emplace();
  tool.undo->request = *ParseRequestLine("DELETE /orders/{external_ref}");
  const auto transition_for = [&](const char* body) {
    const Result<Answer> answer = AnswerOf(201, body);
    std::optional<Json> json;
    const CallValues values = ValuesOf(answer, json);
    return MakeTransition(Event(), Classify(tool, answer, values), tool, answer, values);
  };
  const Transition good = transition_for(R"({"id":"ord:7"})");
  EXPECT_EQ(good.external_ref, "ord:7");
  ASSERT_TRUE(good.undo.has_value());
  EXPECT_EQ(good.undo->method, "DELETE");
  EXPECT_EQ(good.undo->target, "/orders/ord%3A7");
  EXPECT_EQ(transition_for(R"({"id":12})").external_ref, "12");

  // R24: executed all the same, and whoever reads the event sees what is missing.
  for (const char* body : {"{}", R"({"id":{"a":1}})", R"({"id":null})", R"({"id":""})", "<html>",
                           R"({"id":"a\nb"})", R"({"id":1,"id":2})"}) {
    const Transition bad = transition_for(body);
    EXPECT_EQ(bad.to, Phase::kSucceeded) << body;
    EXPECT_EQ(bad.external_ref, "") << body;
    EXPECT_FALSE(bad.undo.has_value()) << body;
    EXPECT_TRUE(bad.detail.starts_with("no external_ref")) << bad.detail;
    EXPECT_NE(bad.detail.find("undo request cannot be made"), std::string::npos) << bad.detail;
  }
}

TEST(OutcomeTest, AnUndoThatNeedsNoAnswerIsReadyWhileTheOutcomeIsUnknown) {
  Tool tool;
  tool.undo.emplace();
  tool.undo->request = *ParseRequestLine("DELETE /orders/by-key/{key}");
  CallValues values;
  values.key = "abc";
  const Result<Answer> lost = Failed(ErrorCode::kBackendTimeout, Delivery::kUncertain);
  const Transition transition =
      MakeTransition(Event(), Classify(tool, lost, values), tool, lost, values);
  ASSERT_TRUE(transition.undo.has_value());
  EXPECT_EQ(transition.undo->target, "/orders/by-key/abc");
}

TEST(OutcomeTest, NothingIsPreparedToUndoWhatDidNotHappen) {
  Tool tool;
  tool.undo.emplace();
  tool.undo->request = *ParseRequestLine("DELETE /orders/by-key/{key}");
  CallValues values;
  values.key = "abc";
  const Result<Answer> refused = AnswerOf(422);
  EXPECT_FALSE(MakeTransition(Event(), Classify(tool, refused, values), tool, refused, values)
                   .undo.has_value());
}

TEST(OutcomeTest, ABodyFramedByACleanCloseIsWholeUnlessItsFormSaysOtherwise) {
  const auto ends = [](std::string type, std::string body, bool until_close = true) {
    Answer answer;
    answer.body_complete = false;
    answer.until_close = until_close;
    answer.response = {200, "OK", {{"Content-Type", std::move(type)}}, std::move(body)};
    return EndsByItself(answer);
  };
  EXPECT_TRUE(ends("application/json", R"({"id":7})"));
  EXPECT_TRUE(ends("application/problem+json; charset=utf-8", "[1, 2]"));
  EXPECT_FALSE(ends("application/json", R"({"id":7)"));
  EXPECT_FALSE(ends("application/json", "71"));  // 7, 71 or 712
  EXPECT_FALSE(ends("text/event-stream", "data: 1\n\n"));
  EXPECT_TRUE(ends("text/plain", "did transfer"));
  EXPECT_TRUE(ends("text/html", ""));
  EXPECT_FALSE(ends("text/plain", "did", /*until_close=*/false));
  EXPECT_FALSE(ends("application/json", R"({"id":7})", /*until_close=*/false));
}

}  // namespace
}  // namespace recourse::outcome_test
