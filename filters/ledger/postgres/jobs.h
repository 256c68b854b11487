// Results on their way back to those who wait: one Post per executor, as it wakes a thread.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "proxy/base/executor.h"

namespace recourse {

class PgJobs {
 public:
  void Tell(Executor* executor, Job job) {
    if (executor == nullptr) return;  // nobody waits
    const auto found = std::ranges::find(jobs_, executor, &Of::first);
    auto& jobs = found != jobs_.end() ? found->second : jobs_.emplace_back(executor, 0).second;
    jobs.push_back(std::move(job));
  }
  void Post() {
    for (auto& [executor, jobs] : jobs_) executor->Post(std::move(jobs));
    jobs_.clear();
  }

 private:
  using Of = std::pair<Executor*, std::vector<Job>>;
  std::vector<Of> jobs_;
};

}  // namespace recourse
