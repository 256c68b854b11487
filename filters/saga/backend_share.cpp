#include "filters/saga/backend_share.h"

#include <algorithm>
#include <chrono>

#include "proxy/base/limits.h"

namespace recourse {
namespace {

// Between two requests to one backend.
MonoTime::duration Apart(const Policy& policy) {
  return MonoTime::duration(std::chrono::seconds(1)) /
         std::max(1, policy.flow_rules.undos_per_second);
}

// How far the requests to one backend may lag behind their rate and catch up: less than one of
// them at a low rate, and at a high one what a tick of the clock may hold up.
MonoTime::duration Credit(MonoTime::duration apart) {
  return apart * (MonoTime::duration(limits::kFlowTick) / apart);
}

}  // namespace

// Whoever may not send now gives up the place that it holds among the flows that are worked on, so
// that a backend that hangs, or many requests to one, hold up no other.
bool BackendShare::Enter(std::uint64_t number, const std::string& backend, const Policy& policy) {
  FlowEntry& entry = *table_.Find(number);
  Lane& lane = lanes_[backend];
  const MonoTime now = clock_.Now();
  if (lane.sending >= limits::kUndosPerBackendMax) {
    lane.waiting.insert(number);
    table_.SetDue(number, now + limits::kUndoBackoffMax);
    return false;
  }
  if (!entry.slot) {
    const MonoTime::duration apart = Apart(policy);
    entry.slot = std::max(lane.next, now - Credit(apart));
    lane.next = *entry.slot + apart;
  }
  if (*entry.slot > now) {
    table_.SetDue(number, *entry.slot);
    return false;
  }
  entry.slot.reset();
  ++lane.sending;
  return true;
}

bool BackendShare::EnterApart(const std::string& backend) {
  Lane& lane = lanes_[backend];
  if (lane.sending >= limits::kUndosPerBackendMax) return false;
  ++lane.sending;
  return true;
}

void BackendShare::Leave(const std::string& backend) {
  Lane& lane = lanes_[backend];
  --lane.sending;
  while (!lane.waiting.empty()) {
    const std::uint64_t number = *lane.waiting.begin();
    lane.waiting.erase(lane.waiting.begin());
    if (table_.Find(number) == nullptr) continue;
    table_.SetDue(number, clock_.Now());
    freed_();
    return;
  }
}

}  // namespace recourse
