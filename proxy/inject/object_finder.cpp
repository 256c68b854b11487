#include "proxy/inject/object_finder.h"

#include <fmt/format.h>

#include <utility>

namespace recourse {
namespace {

constexpr Millis kLooksMax{1'500};  // for one review: API servers wait for five seconds
constexpr Millis kKnown{30'000};
constexpr Millis kPause{5'000};
constexpr std::size_t kKnownMax = 4096;
constexpr int kNotFound = 404;

}  // namespace

bool ObjectFinder::IsKnown(const std::string& path) {
  const auto found = known_.find(path);
  return found != known_.end() && clock_.Now() < found->second;
}

void ObjectFinder::Remember(std::string path) {
  if (known_.size() >= kKnownMax) known_.clear();
  known_.insert_or_assign(std::move(path), clock_.Now() + kKnown);
}

MissingObjects ObjectFinder::Find(std::string_view space, const std::vector<NeededObject>& needed) {
  MissingObjects missing;
  const MonoTime end = clock_.Now() + kLooksMax;
  for (const NeededObject& one : needed) {
    std::string path =
        fmt::format("/api/v1/namespaces/{}/{}/{}", space,
                    one.kind == NeededObject::Kind::kSecret ? "secrets" : "configmaps", one.name);
    if (IsKnown(path)) continue;
    const auto left = std::chrono::ceil<Millis>(end - clock_.Now());
    if (clock_.Now() < resumes_ || left <= Millis::zero()) {
      missing.unknown = failure_.empty() ? "the API server takes too long" : failure_;
      return missing;
    }
    const auto found = api_.Get(path, KubeApi::Form::kMetadata, left);
    if (found) {
      Remember(std::move(path));
    } else if (found.error().status == kNotFound) {
      missing.names.push_back(one);
    } else {
      missing.unknown = failure_ = found.error().why;
      // A right that is missing is missing for one object alone.
      if (found.error().status == 0) resumes_ = clock_.Now() + kPause;
    }
  }
  return missing;
}

}  // namespace recourse
