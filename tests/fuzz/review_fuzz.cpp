// Whatever comes to the injector is answered: with a status of its own, or with a review that has
// the uid and, when there is a patch, one whose operations can be read. Input: the body.
#include "proxy/base/check.h"
#include "proxy/base/json/json.h"
#include "proxy/inject/admission_review.h"
#include "proxy/inject/injection.h"
#include "tests/fuzz/fuzz.h"
#include "tests/inject/template_text.h"

namespace recourse {
namespace {

void CheckPatch(const Json& pod, const PodTemplate& from) {
  const auto injection = InjectionFor(pod, from);
  RC_CHECK(injection || !injection.error().empty());
  if (!injection) return;
  const auto patch = ParseJson(injection->patch.text());
  RC_CHECK(patch && patch->kind == Json::Kind::kArray);
  RC_CHECK(patch->items.empty() == injection->patch.is_empty());
  for (const Json& operation : patch->items) {
    RC_CHECK(IsJsonPointer(TextOf(operation, "path")) && operation.Find("value") != nullptr);
  }
}

}  // namespace

void FuzzOne(std::string_view bytes) {
  static const PodTemplate from = *ReadPodTemplate(kTemplateText);
  (void)ReadPodTemplate(bytes);
  HttpRequest request{"POST", "/mutate", {{"Content-Type", "application/json"}}, {}};
  request.body = bytes;
  request.target = "/validate";
  const ReviewAnswer validated = AnswerReview(request, from);
  RC_CHECK((validated.response.status == 200) == (validated.result != ReviewResult::kBad));
  request.target = "/mutate";
  const ReviewAnswer answer = AnswerReview(request, from);
  RC_CHECK((answer.response.status == 200) == (answer.result != ReviewResult::kBad));
  if (answer.response.status != 200) return;
  const auto said = ParseJson(answer.response.body);
  const auto asked = ParseJson(bytes);
  RC_CHECK(said && asked);
  RC_CHECK(AtPointer(*said, "/response/uid")->text == AtPointer(*asked, "/request/uid")->text);
  if (const Json* const pod = AtPointer(*asked, "/request/object")) CheckPatch(*pod, from);
}

}  // namespace recourse
