#include "proxy/admin/views/pod_names.h"

namespace recourse {

void PodNames::Write(JsonObject& json, std::uint64_t row) {
  if (shared_ == nullptr) return;
  const std::uint64_t stream = UnpackRowId(row).stream;
  WriteMembers(json, kPodMembers, {stream, Of(stream)});
}

std::string PodNames::Of(std::uint64_t stream) {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(stream);
  if (known != known_.end()) return known->second;
  std::string pod = shared_->PodOf(stream);
  if (!pod.empty()) known_[stream] = pod;
  return pod;
}

}  // namespace recourse
