// One I/O thread: its io_context with the sockets of the data plane, deadlines, relay buffers, host
// names and files. A connection and its flow never leave their thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "proxy/base/clock.h"
#include "proxy/base/executor.h"
#include "proxy/base/line_pace.h"
#include "proxy/net/http1/message_head.h"
#include "proxy/net/loop/buffer_pool.h"
#include "proxy/net/loop/connection.h"
#include "proxy/net/loop/file_pressure.h"
#include "proxy/net/loop/heap_trim.h"
#include "proxy/net/loop/host_resolver.h"
#include "proxy/net/loop/kernel_wait.h"
#include "proxy/net/loop/loop_thread.h"
#include "proxy/net/loop/object_pool.h"
#include "proxy/net/loop/periodic_tasks.h"

namespace recourse {

using PooledHead = ObjectPool<Head>::Lent;

class IoThread final : public Executor, public Timer, KernelWait {
 public:
  // `speed` is how many times as fast as the world the clock goes.
  explicit IoThread(const Clock& clock, int speed = 1);
  ~IoThread() override;

  // Runs the loop on a thread of its own until Stop(). What is queued or posted before waits.
  void Start(const std::string& name = "recourse-io");
  // Thread-safe. What is still suspended then is abandoned; the process is about to end.
  void Stop() { loop_.Stop(); }
  void Join() { loop_.Join(); }

  void Post(std::vector<Job> jobs) override { loop_.Post(std::move(jobs)); }
  Task<void> SleepUntil(MonoTime when) override;

  boost::asio::io_context& context() { return loop_.context(); }
  Reactor& reactor() { return reactor_; }
  DeadlineWheel& wheel() { return wheel_; }
  BufferPool& buffers() { return buffers_; }
  PeriodicTasks& upkeep() { return upkeep_; }
  // For heads of answers on their way.
  ObjectPool<Head>& heads() { return heads_; }
  const Clock& clock() const { return clock_; }
  // How many connections to backends are open, also those that wait in a pool.
  std::atomic<std::size_t>& backend_connections() { return backend_connections_; }

  // Told how long the thread was at work each time, from the kernel's news to its next look for
  // some. Before Start().
  void OnTurn(std::move_only_function<void(std::chrono::nanoseconds)> told) {
    told_turn_ = std::move(told);
  }
  FilePressure& files() { return files_; }
  HostResolver& names() { return names_; }
  // The lines of the log about a backend that cannot be reached.
  LinePace& LinesAbout(const std::string& backend) { return lines_about_[backend]; }

 private:
  struct Tick;
  void LookAt(MonoTime when);
  bool TrimBuffers();
  int Wait(int epoll, epoll_event* events, int max, int timeout_ms) override;

  const Clock& clock_;
  const int speed_;
  ObjectPool<Head> heads_;
  std::atomic<std::size_t> backend_connections_{0};
  Reactor reactor_;
  DeadlineWheel wheel_;
  FilePressure files_;
  PeriodicTasks upkeep_;
  std::move_only_function<void(std::chrono::nanoseconds)> told_turn_;
  BufferPool buffers_;
  HeapTrim heap_;
  MonoTime woke_;
  bool is_nested_ = false;  // the io_context's set is in the reactor's
  LoopThread loop_;
  const std::unique_ptr<Tick> tick_;
  std::unordered_map<std::string, LinePace> lines_about_;  // by the name of the backend
  HostResolver names_;
};

}  // namespace recourse
