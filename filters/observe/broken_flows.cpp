#include "filters/observe/broken_flows.h"

namespace recourse {
namespace {

constexpr std::size_t kBrokenFlowsMax = 10'000;

}  // namespace

void BrokenFlows::Add(const std::string& caller, const std::string& flow) {
  const Digest key = FlowKeyOf(caller, flow);
  const std::lock_guard lock(mutex_);
  if (!broken_.insert(key).second) return;
  order_.push_back(key);
  if (order_.size() <= kBrokenFlowsMax) return;
  broken_.erase(order_.front());
  order_.pop_front();
}

bool BrokenFlows::Has(const std::string& caller, const std::string& flow) const {
  const Digest key = FlowKeyOf(caller, flow);
  const std::lock_guard lock(mutex_);
  return broken_.contains(key);
}

}  // namespace recourse
