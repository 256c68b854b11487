#include "filters/observe/arrival_order.h"

#include <utility>

#include "proxy/base/post_job.h"

namespace recourse {

std::shared_ptr<ObservedOrder::Place> ObservedOrder::Arrive(const Digest& group) {
  auto place = std::make_shared<Place>();
  place->group = group;
  const std::lock_guard lock(mutex_);
  auto& places = groups_[group];
  for (const auto& earlier : places) {
    if (earlier->has_ended) place->before.push_back(earlier);
  }
  places.push_back(place);
  return place;
}

Task<void> ObservedOrder::MyTurn(std::shared_ptr<Place> place, Executor& executor) {
  const std::vector<std::shared_ptr<Place>> before = std::exchange(place->before, {});
  for (const auto& earlier : before) {
    auto told = std::make_shared<Promise<bool>>();
    {
      const std::lock_guard lock(mutex_);
      if (earlier->is_recorded) continue;
      earlier->waiters.push_back({&executor, told});
    }
    co_await told->Wait();
  }
}

void ObservedOrder::Ended(Place& place) {
  const std::lock_guard lock(mutex_);
  place.has_ended = true;
}

void ObservedOrder::Recorded(const std::shared_ptr<Place>& place) {
  std::vector<Place::Waiter> waiters;
  {
    const std::lock_guard lock(mutex_);
    place->is_recorded = true;
    waiters = std::exchange(place->waiters, {});
    const auto at = groups_.find(place->group);
    std::erase(at->second, place);
    if (at->second.empty()) groups_.erase(at);
  }
  for (Place::Waiter& waiter : waiters) {
    PostJob(*waiter.executor, [told = std::move(waiter.told)] { told->Set(true); });
  }
}

}  // namespace recourse
