#pragma once

#include <memory>
#include <utility>

#include "proxy/base/post_job.h"
#include "proxy/base/task.h"

namespace recourse {

// The waiter goes on on its own thread.
template <class T>
void Reply(Executor& executor, std::shared_ptr<Promise<T>> told, T what) {
  PostJob(executor, [told = std::move(told), what = std::move(what)]() mutable {
    told->Set(std::move(what));
  });
}

}  // namespace recourse
