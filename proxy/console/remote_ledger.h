// A ledger of a console: the admin API of a pod, or of the steward, that has it. One that does not
// answer holds up nobody for long, and is asked again by whoever comes next.
#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <thread>

#include "proxy/base/clock.h"
#include "proxy/base/http/http_message.h"
#include "proxy/cli/api_client.h"
#include "proxy/net/beast/http_client.h"

namespace recourse {

class RemoteLedger {
 public:
  // What was answered. `away`: why nobody can tell whether the request was done; empty: it is
  // `response` that tells.
  struct Said {
    HttpResponse response{};
    std::string away{};
  };
  RemoteLedger(std::string name, ApiClient client, HttpPlace place);
  ~RemoteLedger();

  const std::string& name() const { return name_; }
  // Why it cannot be asked, or cannot read its database; empty: it can, as far as it is known.
  // Thread-safe.
  std::string away() const;

  // Sends a request; Await gives what came of it. One thread asks at a time.
  std::future<Said> Ask(HttpRequest request);
  Said Await(std::future<Said>& asked, Millis patience = kListPatience);
  // How long a list waits for one that answered last, and an order that is for it alone.
  static constexpr Millis kListPatience{8'000}, kOrderPatience{30'000};

 private:
  struct Job {
    HttpRequest request;
    std::promise<Said> done;
  };
  void Run();
  Said Do(const HttpRequest& request);
  void Become(std::string why);

  const std::string name_;
  const ApiClient client_;
  const HttpPlace place_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> queue_;   // guarded by mutex_
  bool is_busy_ = false;    // guarded by mutex_
  bool is_ending_ = false;  // guarded by mutex_
  std::string away_;        // guarded by mutex_
  std::thread thread_;
};

}  // namespace recourse
