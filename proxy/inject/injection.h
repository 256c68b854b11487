// What has to be added to a pod, so that its agents are served by Recourse. Pure.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "proxy/inject/json_patch.h"
#include "proxy/inject/needed_objects.h"
#include "proxy/inject/pod_template.h"

namespace recourse {

struct Injection {
  enum class Result : std::uint8_t {
    kInjected,
    kPresent,   // the pod has the sidecar: nothing is added
    kNotAsked,  // no annotation asks for it
  };
  Result result = Result::kNotAsked;
  JsonPatch patch;                    // empty unless injected
  std::vector<NeededObject> needed;   // by what is added, in the pod's namespace
  std::vector<std::string> warnings;  // one sentence each, for whoever made the pod
};

// `pod` is an object with `metadata` and `spec`. Fails with a sentence, for whoever made the pod,
// that says why it cannot have the sidecar as it is and what to change.
std::expected<Injection, std::string> InjectionFor(const Json& pod, const PodTemplate& from);

}  // namespace recourse
