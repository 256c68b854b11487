// AdmissionReview (admission.k8s.io/v1): what an API server asks of a webhook. Pure, but for what
// `find` does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/http/http_message.h"
#include "proxy/inject/needed_objects.h"
#include "proxy/inject/pod_template.h"

namespace recourse {

enum class ReviewResult : std::uint8_t {
  kInjected,
  kPresent,   // it has the sidecar
  kNotAsked,  // no annotation asks for it
  kRefused,   // it cannot have the sidecar as it is
  kNotAPod,   // the webhook's rules ask about more than the creation of pods, or what makes them
  kWorkload,  // it makes pods, and was looked at before it does
  kPolicy,    // a ConfigMap with a policy that pods can take
  kBad,       // no AdmissionReview
};
inline constexpr int kReviewResultCount = 8;
std::string_view NameOf(ReviewResult result);

struct ReviewAnswer {
  HttpResponse response;
  ReviewResult result = ReviewResult::kBad;
  std::string pod;     // "NAMESPACE/NAME" for people; a pod that is named later ends with *
  std::string reason;  // of kRefused and kBad
  // Sentences for whoever made the pod, or the workload. A controller that makes one drops them.
  std::vector<std::string> warnings;
  bool is_dry_run = false;
};

// What cannot be read is answered with 400: the API server then does as the webhook's failurePolicy
// says. Everything else is answered with 200.
ReviewAnswer AnswerReview(const HttpRequest& request, const PodTemplate& from,
                          const FindMissing& find = {});

}  // namespace recourse
