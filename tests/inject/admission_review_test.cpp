#include "proxy/inject/admission_review.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/inject/pods.h"

namespace recourse::review_test {
namespace {

ReviewAnswer AnswerTo(std::string_view body, std::string_view type = "application/json",
                      std::string_view target = "/mutate?timeout=5s") {
  HttpRequest request{"POST", std::string(target), {}, std::string(body)};
  request.headers.emplace_back("Content-Type", type);
  return AnswerReview(request, SmallTemplate());
}

std::string ReviewOf(std::string_view asked) {
  return R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u\"1",)"
         R"("resource":{"group":"","version":"v1","resource":"pods"},"operation":"CREATE",)" +
         std::string(asked) + "}}";
}

TEST(Review, TheUidComesBackAndAPodWithoutANameIsNamedByItsPrefix) {
  const auto answer = AnswerTo(ReviewOf(
      R"("namespace":"n","object":{"metadata":{"generateName":"a-"},"spec":{"containers":[]}})"));
  EXPECT_EQ(answer.result, ReviewResult::kNotAsked);
  EXPECT_EQ(answer.pod, "n/a-*");
  EXPECT_EQ(answer.response.status, 200);
  EXPECT_EQ(answer.response.body, R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",)"
                                  R"("response":{"uid":"u\"1","allowed":true}})");
}

TEST(Review, APatchGoesAsBase64AndARefusalHasCodeAndMessage) {
  const auto injected =
      AnswerTo(ReviewOf(R"("object":{"metadata":{"annotations":{"recourse.dev/inject":"true"}},)"
                        R"("spec":{"containers":[]}},"dryRun":true)"));
  EXPECT_EQ(injected.result, ReviewResult::kInjected);
  EXPECT_TRUE(injected.is_dry_run);
  EXPECT_NE(injected.response.body.find(R"("patchType":"JSONPatch","patch":"W3si)"),
            std::string::npos);
  const auto refused =
      AnswerTo(ReviewOf(R"("object":{"metadata":{"annotations":{"recourse.dev/inject":"1"}},)"
                        R"("spec":{"containers":[]}})"));
  EXPECT_EQ(refused.result, ReviewResult::kRefused);
  EXPECT_NE(refused.response.body.find(
                R"("allowed":false,"status":{"code":403,"reason":"Forbidden","message":"the ann)"),
            std::string::npos);
  EXPECT_EQ(refused.response.body.find("patch"), std::string::npos);
}

TEST(Review, AnotherResourceOrOperationIsLetThrough) {
  const auto other = AnswerTo(
      R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1",)"
      R"("resource":{"group":"apps","resource":"deployments"},"operation":"CREATE"}})");
  EXPECT_EQ(other.result, ReviewResult::kNotAPod);
  EXPECT_NE(other.response.body.find(R"("allowed":true,"warnings":[)"), std::string::npos);
}

TEST(Review, TheTypeOfTheBodyIsReadAsAMediaType) {
  const std::string body = ReviewOf(R"("object":{"metadata":{},"spec":{"containers":[]}})");
  EXPECT_EQ(AnswerTo(body, "Application/JSON; charset=utf-8").response.status, 200);
  EXPECT_EQ(AnswerTo(body, "application/json-patch+json").response.status, 415);
  EXPECT_EQ(AnswerTo(body, "application/json", "/mutate/").response.status, 404);
  EXPECT_EQ(AnswerTo(body, "application/json", "/mutate").response.status, 200);
}

TEST(Review, EveryResultHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int i = 0; i < kReviewResultCount; ++i) names.insert(NameOf(static_cast<ReviewResult>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kReviewResultCount));
}

}  // namespace
}  // namespace recourse::review_test
