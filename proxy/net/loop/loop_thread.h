// A thread that runs an io_context of Boost.Asio: each I/O thread, and each server off the data
// plane.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proxy/base/executor.h"

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace recourse {

class LoopThread final : public Executor {
 public:
  LoopThread();
  ~LoopThread() override;
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  // Runs the context on a thread of its own until Stop(); there `first` is called before anything
  // else. What was posted before waits.
  void Start(const std::string& name, std::function<void()> first = {});
  // Thread-safe. What is still suspended then is abandoned.
  void Stop();
  void Join();

  void Post(std::vector<Job> jobs) override;
  // Objects of it are used on this thread alone, or before Start().
  boost::asio::io_context& context() { return *context_; }

 private:
  void RunPosted();

  const std::unique_ptr<boost::asio::io_context> context_;
  std::deque<Job> posted_;  // jobs that wait for their turn on the thread
  std::thread thread_;
};

}  // namespace recourse
