// Looks for connections to backends that went past Recourse, and counts them.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "policy/model/policy.h"
#include "proxy/base/clock.h"
#include "proxy/telemetry/metrics.h"
#include "proxy/telemetry/socket_table.h"

namespace recourse {

// Has a thread of its own, which looks once a second: what lived for less may be missed.
class UnguardedWatch {
 public:
  using CurrentPolicy = std::function<std::shared_ptr<const Policy>()>;
  // All outlive it. `policy` is asked on the thread.
  UnguardedWatch(CurrentPolicy policy, Guarded guarded, Metrics& metrics, const Clock& clock);
  ~UnguardedWatch();

 private:
  void Run(const std::stop_token& stop);
  void LookBackendsUp(const std::shared_ptr<const Policy>& policy);
  void Look();

  const CurrentPolicy policy_;
  const Guarded guarded_;
  const Clock& clock_;
  prometheus::Family<prometheus::Counter>& found_;
  // Of the thread:
  std::shared_ptr<const Policy> looked_up_;
  MonoTime look_up_at_{}, tell_at_{};
  std::vector<BackendAddress> backends_;
  std::map<std::uint64_t, MonoTime> seen_;  // by inode: when it was found last

  std::mutex mutex_;
  std::condition_variable_any ends_;
  std::jthread thread_;
};

}  // namespace recourse
