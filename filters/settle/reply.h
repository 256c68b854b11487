#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "proxy/base/executor.h"
#include "proxy/base/task.h"

namespace recourse {

// The waiter goes on on its own thread.
template <class T>
void Reply(Executor& executor, std::shared_ptr<Promise<T>> told, T what) {
  std::vector<Job> jobs;
  jobs.push_back(
      [told = std::move(told), what = std::move(what)]() mutable { told->Set(std::move(what)); });
  executor.Post(std::move(jobs));
}

}  // namespace recourse
