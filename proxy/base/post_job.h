// One job for an executor, which takes many at a time.
#pragma once

#include <utility>
#include <vector>

#include "proxy/base/executor.h"

namespace recourse {

inline void PostJob(Executor& executor, Job job) {
  std::vector<Job> jobs;
  jobs.push_back(std::move(job));
  executor.Post(std::move(jobs));
}

}  // namespace recourse
