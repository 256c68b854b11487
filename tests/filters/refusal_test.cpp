// Which answers are refusals, beside what their status says.
#include <gtest/gtest.h>

#include "filters/call/call_values.h"
#include "filters/call/outcome.h"

namespace recourse::refusal_test {
namespace {

Answer AnswerOf(int status, std::string body = "{}") {
  Answer answer;
  answer.response.status = status;
  answer.response.body = std::move(body);
  return answer;
}

Verdict Judge(const Tool& tool, const Answer& answer) {
  const std::optional<Json> body = ReadAnswerBody(answer);
  CallValues values;
  values.answer_status = answer.response.status;
  values.answer_headers = &answer.response.headers;
  values.answer_body = body ? &*body : nullptr;
  return Classify(tool, answer, values);
}

TEST(RefusalTest, A402ThatNamesHowToPayComesAgainAndAnyOtherIsARefusal) {
  const auto phase = [](Answer answer) { return Judge(Tool(), std::move(answer)).phase; };
  for (const char* const name : {"WWW-Authenticate", "payment-required"}) {
    Answer challenge = AnswerOf(402);
    challenge.response.headers.emplace_back(name, "L402 macaroon=a, invoice=b");
    EXPECT_EQ(phase(challenge), Phase::kNotSent) << name;
  }
  EXPECT_EQ(phase(AnswerOf(402, R"({"x402Version":1,"accepts":[]})")), Phase::kNotSent);
  for (const char* const body : {"", "no", "[]", R"({"error":{"code":"card_declined"}})"}) {
    EXPECT_EQ(phase(AnswerOf(402, body)), Phase::kRejected) << body;
  }
}

TEST(RefusalTest, FailedWhenMakesARefusalOfWhatHadNoEffect) {
  Tool tool;
  tool.not_executed = *ParseStatuses({"409"});
  tool.failed_when = {*ParseCondition("answer.body#/code == \"out_of_stock\"")};
  const auto judged = [&](int status) {
    return Judge(tool, AnswerOf(status, R"({"code":"out_of_stock"})"));
  };
  for (const int status : {409, 412, 429}) {
    EXPECT_EQ(judged(status).phase, Phase::kRejected) << status;
    EXPECT_EQ(judged(status).cause, Cause::kRejectedNow) << status;
    EXPECT_EQ(Judge(tool, AnswerOf(status, "{}")).phase, Phase::kNotSent) << status;
  }
  EXPECT_EQ(judged(500).phase, Phase::kUncertain) << "its status proves nothing";
}

TEST(RefusalTest, FailedWhenOfAStatusMakesARefusalOfIt) {
  const auto phase = [](const char* condition, int status) {
    Tool tool;
    tool.failed_when = {*ParseCondition(condition)};
    return Judge(tool, AnswerOf(status, "{}")).phase;
  };
  EXPECT_EQ(phase("answer.status == 409", 409), Phase::kRejected);
  EXPECT_EQ(phase("answer.status == 409", 500), Phase::kUncertain);
  EXPECT_EQ(phase("answer.status == 409", 412), Phase::kNotSent);
  EXPECT_EQ(phase("answer.status >= 400", 504), Phase::kUncertain) << "it names no status";
}

}  // namespace
}  // namespace recourse::refusal_test
