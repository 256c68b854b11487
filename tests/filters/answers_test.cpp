#include "filters/call/answers.h"

#include <gtest/gtest.h>

#include "proxy/base/json/json.h"
#include "proxy/base/limits.h"

namespace recourse::answers_test {
namespace {

Json BodyOf(const WriteAnswer& answer) {
  auto parsed = ParseJson(answer.response.body);
  EXPECT_TRUE(parsed.has_value()) << answer.response.body;
  return parsed ? *parsed : Json();
}

std::string Text(const Json& body, std::string_view name) {
  const Json* member = body.Find(name);
  return member == nullptr ? "<absent>" : ScalarText(*member);
}

std::string Field(const WriteAnswer& answer, std::string_view name) {
  const std::string* value = FindHeader(answer.response.headers, name);
  return value == nullptr ? "<absent>" : *value;
}

TEST(AnswersTest, EveryCodeGivesACompleteProblem) {
  for (int i = 0; i < kErrorCodeCount; ++i) {
    const auto code = static_cast<ErrorCode>(i);
    const WriteAnswer answer = MakeProblem(code, "what happened");
    const Json body = BodyOf(answer);
    EXPECT_EQ(answer.error, code);
    EXPECT_EQ(Text(body, "type"),
              "https://recourse.dev/problems/" + std::string(FactsOf(code).slug));
    EXPECT_EQ(Text(body, "status"), std::to_string(answer.response.status));
    EXPECT_EQ(Text(body, "detail"), "what happened");
    EXPECT_EQ(Text(body, "outcome"), FactsOf(code).outcome);
    EXPECT_EQ(Text(body, "retryable"), FactsOf(code).retryable ? "true" : "false");
    EXPECT_FALSE(Text(body, "advice").empty());
    const Json* const error = body.Find("error");
    ASSERT_NE(error, nullptr);
    EXPECT_TRUE(Text(*error, "type").ends_with("_error")) << Text(*error, "type");
    EXPECT_EQ(Text(*error, "code"), FactsOf(code).slug);
    EXPECT_EQ(Text(*error, "message"),
              JoinSentences({FactsOf(code).title, "what happened", FactsOf(code).advice}));
    EXPECT_EQ(Field(answer, "Content-Type"), "application/problem+json");
    EXPECT_EQ(Field(answer, "Proxy-Status"),
              "recourse; error=" + std::string(FactsOf(code).proxy_error));
    EXPECT_EQ(Field(answer, "Recourse-Outcome"), FactsOf(code).outcome);
    EXPECT_EQ(Field(answer, "Retry-After") != "<absent>", FactsOf(code).retryable);
  }
}

TEST(AnswersTest, FactsOfTheOperationAreInTheBodyAndInTheFields) {
  ProblemFacts facts;
  facts.event = 41;
  facts.flow = "flow-1";
  facts.key = "ab12";
  facts.status = 502;
  facts.proxy_error = "connection_terminated";
  facts.received_status = 500;
  facts.retry_after_s = 7;
  const WriteAnswer answer = MakeProblem(ErrorCode::kOutcomeUnknown, "lost", facts);
  const Json body = BodyOf(answer);
  EXPECT_EQ(answer.response.status, 502);
  EXPECT_EQ(Text(body, "status"), "502");
  EXPECT_EQ(Text(body, "event"), "41");
  EXPECT_EQ(Text(body, "flow"), "flow-1");
  EXPECT_EQ(Field(answer, "Recourse-Event"), "41");
  EXPECT_EQ(Field(answer, "Recourse-Flow"), "flow-1");
  EXPECT_EQ(Field(answer, "Idempotency-Key"), "ab12");
  EXPECT_EQ(Field(answer, "Retry-After"), "7");
  EXPECT_EQ(Field(answer, "Proxy-Status"),
            "recourse; error=connection_terminated; received-status=500");
}

TEST(AnswersTest, ACodeCanSpeakForAnotherOutcome) {
  ProblemFacts facts;
  facts.speaks_for = ErrorCode::kOutcomeUnknown;
  const WriteAnswer answer = MakeProblem(ErrorCode::kLedgerUnavailable, "not written", facts);
  const Json body = BodyOf(answer);
  EXPECT_EQ(answer.response.status, 503);
  EXPECT_EQ(Text(body, "outcome"), "unknown");
  EXPECT_EQ(Text(body, "advice"), FactsOf(ErrorCode::kOutcomeUnknown).advice);
}

TEST(AnswersTest, AnErrorHasTheTypeThatSdksKnowItBy) {
  const std::pair<ErrorCode, std::string_view> rows[] = {
      {ErrorCode::kMalformedRequest, "invalid_request_error"},
      {ErrorCode::kDenied, "permission_error"},
      {ErrorCode::kOutcomeUnknown, "api_error"},
      {ErrorCode::kKeyReused, "idempotency_error"},
      {ErrorCode::kQuotaExceeded, "rate_limit_error"},
      {ErrorCode::kNotSent, "api_error"}};
  for (const auto& [code, type] : rows) {
    EXPECT_EQ(Text(*BodyOf(MakeProblem(code, "")).Find("error"), "type"), type);
  }
}

TEST(AnswersTest, SentencesEndInOneFullStopAndAreSaidOnce) {
  EXPECT_EQ(JoinSentences({"Lost", "it was lost.\n", "", "Lost", "Wait."}),
            "Lost. it was lost. Wait.");
}

TEST(AnswersTest, DetailsAreEscapedAndBounded) {
  const WriteAnswer quoted = MakeProblem(ErrorCode::kInternal, "a\"b\r\n\x01");
  EXPECT_EQ(BodyOf(quoted).Find("detail")->text, "a\"b\r\n\x01");
  std::string longest(limits::kDetailBytesMax - 1, 'x');
  longest += "\xc3\xa9";  // the bound falls into this character
  EXPECT_EQ(BodyOf(MakeProblem(ErrorCode::kInternal, longest)).Find("detail")->text.size(),
            limits::kDetailBytesMax - 1);
}

TEST(AnswersTest, FieldsOfOursNeverComeFromABackend) {
  Headers headers = {{"Recourse-Event", "1"},      {"RECOURSE-anything", "1"},
                     {"idempotent-replayed", "1"}, {"X-Accel-Redirect", "/x"},
                     {"X-Sendfile", "/x"},         {"X-Recourse", "kept"},
                     {"Recourse", "kept"}};
  StripOwnFields(headers);
  EXPECT_EQ(headers, (Headers{{"X-Recourse", "kept"}, {"Recourse", "kept"}}));
}

TEST(AnswersTest, DecorationReplacesWhatTheBackendSaid) {
  HttpResponse response;
  response.headers = {{"Idempotency-Key", "of the backend"}, {"Location", "/orders/1"}};
  Decorate(response, {.event = 7,
                      .flow = "f",
                      .key = "ab",
                      .outcome = "executed",
                      .origin = AnswerSource::kReplay});
  EXPECT_EQ(response.headers, (Headers{{"Location", "/orders/1"},
                                       {"Idempotency-Key", "ab"},
                                       {"Recourse-Event", "7"},
                                       {"Recourse-Outcome", "executed"},
                                       {"Recourse-Flow", "f"},
                                       {"Idempotent-Replayed", "true"}}));
}

}  // namespace
}  // namespace recourse::answers_test
