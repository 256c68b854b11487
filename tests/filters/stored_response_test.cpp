#include "filters/call/stored_response.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace recourse::kept_answer_test {
namespace {

std::vector<Selector> Places(std::initializer_list<std::string_view> texts) {
  std::vector<Selector> places;
  for (const auto text : texts) places.push_back(*ParseSelector(text));
  return places;
}

HttpResponse Json(std::string body) {
  return {201, "Created", {{"Content-Type", "application/json"}}, std::move(body)};
}

TEST(KeptAnswerTest, OnlyListedFieldsAreKept) {
  HttpResponse response = Json("{}");
  for (const auto name : {"Location", "eTag", "Set-Cookie", "X-Internal", "Authorization",
                          "X-Receipt", "Recourse-Event", "Recourse-Redacted", "X-Accel-Redirect"}) {
    response.headers.emplace_back(name, "v");
  }
  const auto kept = StoredResponse(response, {"x-receipt", "recourse-event"}, {});
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->headers, (Headers{{"Content-Type", "application/json"},
                                    {"Location", "v"},
                                    {"eTag", "v"},
                                    {"X-Receipt", "v"}}));
  EXPECT_EQ(kept->body, "{}");
}

TEST(KeptAnswerTest, RedactedValuesAreTakenOutAndTold) {
  HttpResponse response = Json(R"({"id": 1.50, "card": {"number": "4242", "cvc": [1]}})");
  response.headers.emplace_back("Location", "/secret");
  const auto kept = StoredResponse(
      response, {},
      Places({"answer.body#/card/number", "answer.body#/card/cvc", "answer.body#/absent",
              "answer.header.Location", "answer.header.ETag", "body#/id"}));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->body, R"({"id": 1.50, "card": {"number": "[redacted]", "cvc": "[redacted]"}})");
  EXPECT_EQ(kept->headers, (Headers{{"Content-Type", "application/json"},
                                    {"Recourse-Redacted",
                                     "answer.body#/card/number, answer.body#/card/cvc, "
                                     "answer.header.Location"}}));
}

TEST(KeptAnswerTest, ABodyInWhichTheValueCannotBeFoundIsNotKept) {
  const auto redact = Places({"answer.body#/token"});
  EXPECT_FALSE(StoredResponse(Json("token=secret"), {}, redact));
  EXPECT_FALSE(StoredResponse(Json(R"({"token":1,"token":2})"), {}, redact));
  HttpResponse encoded = Json("{}");
  encoded.headers.emplace_back("Content-Encoding", "gzip");
  EXPECT_FALSE(StoredResponse(encoded, {}, redact));
  EXPECT_TRUE(StoredResponse(encoded, {}, Places({"answer.header.ETag"})));
  EXPECT_TRUE(StoredResponse(Json(""), {}, redact));
  const auto untouched = StoredResponse(Json(R"({"a": 1})"), {}, redact);
  ASSERT_TRUE(untouched);
  EXPECT_EQ(untouched->body, R"({"a": 1})");
  EXPECT_EQ(untouched->headers.size(), 1U);
}

}  // namespace
}  // namespace recourse::kept_answer_test
