// One I/O thread: its loop, deadlines, relay buffers and name cache. A connection and its flow
// never leave their thread.
#pragma once

#include <atomic>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/thread_pool.hpp>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "proxy/base/clock.h"
#include "proxy/base/executor.h"
#include "proxy/base/line_pace.h"
#include "proxy/net/http1/message_head.h"
#include "proxy/net/loop/buffer_pool.h"
#include "proxy/net/loop/connection.h"
#include "proxy/net/loop/heap_trim.h"
#include "proxy/net/loop/object_pool.h"
#include "proxy/net/loop/periodic_tasks.h"

namespace recourse {

using PooledHead = ObjectPool<Head>::Lent;

class IoThread final : public Executor, public Timer {
 public:
  // `speed` is how many times as fast as the world the clock goes.
  explicit IoThread(const Clock& clock, int speed = 1);
  ~IoThread() override;

  // Runs the loop on a thread of its own until Stop(). What is queued or posted before waits.
  void Start(const std::string& name = "recourse-io");
  // Thread-safe. What is still suspended then is abandoned; the process is about to end.
  void Stop();
  void Join();

  void Post(std::vector<Job> jobs) override;
  Task<void> SleepUntil(MonoTime when) override;

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
  // `free` closes what is kept for later use; false: there was nothing. It is called as long as
  // this lives, when the process may open no more files.
  void WhenFilesAreShort(std::move_only_function<bool()> free) { free_files_ = std::move(free); }
  bool FreeFiles() { return free_files_ && free_files_(); }
  // All of the process, this one too. Before any of them starts.
  void HasPeers(std::vector<IoThread*> all) { all_ = std::move(all); }
  // Where nothing is kept here, the others are asked as well. True as soon as something was closed,
  // which is not said any more after `limit`.
  Task<bool> FreeFilesAnywhere(MonoTime limit);
  // As the kernel gives the lowest number that is free, few files are left where a new one has this
  // number or a higher one. Nothing idle keeps such a file: they are for clients and probes.
  int files_short_from() const { return files_short_from_; }

  // Addresses of a host, from a cache of kNamesKept for up to kNameTtl. IP literals need no lookup.
  // Empty on failure and at `deadline`. Runs getaddrinfo on one of kLookupThreads, never here, and
  // once for all who wait for the same name: a name server that is slow for one name holds up no
  // other.
  Task<std::vector<boost::asio::ip::address>> Resolve(std::string host, MonoTime deadline);
  // The lines of the log about a backend that cannot be reached.
  LinePace& LinesAbout(const std::string& backend) { return lines_about_[backend]; }
  // The next Resolve() of it asks anew.
  void ForgetName(const std::string& host) { names_.erase(host); }

 private:
  static constexpr Millis kNameTtl{5'000};
  static constexpr Millis kFailedNameTtl{500};
  static constexpr std::size_t kNamesKept = 1'024;
  struct Name {
    std::vector<boost::asio::ip::address> addresses;
    MonoTime expires;
  };
  struct Asker;
  struct Search;
  void StartLookup(const std::string& host);
  void EndLookup(const std::string& host, std::vector<boost::asio::ip::address> addresses);
  // A thread for blocking look-ups; more are made only while all that exist are at work.
  struct Helper {
    boost::asio::thread_pool thread{1};
    std::size_t at_work = 0;
  };
  Helper* LeastBusyHelper();
  // Moves the deadlines on when their wheel asks for it.
  struct Tick final : Waiter {
    explicit Tick(IoThread& thread);
    static void Run(Waiter& self);
    IoThread& thread;
    Descriptor timer;
  };
  void LookAt(MonoTime when);
  bool TrimBuffers();
  void Run();
  void Wake();
  bool MayWait();
  void RunPosted();

  const Clock& clock_;
  const int speed_;
  const int files_short_from_;
  ObjectPool<Head> heads_;
  std::atomic<std::size_t> backend_connections_{0};
  Reactor reactor_;
  DeadlineWheel wheel_;
  PeriodicTasks upkeep_;
  std::move_only_function<bool()> free_files_;
  std::move_only_function<void(std::chrono::nanoseconds)> told_turn_;
  std::vector<IoThread*> all_;
  BufferPool buffers_;
  HeapTrim heap_;
  Tick tick_;
  Descriptor bell_;         // an eventfd; each write to it ends a wait, so nobody reads it
  std::deque<Job> posted_;  // jobs that the thread has taken over
  std::mutex mutex_;
  std::vector<Job> incoming_;  // guarded by mutex_
  std::atomic<bool> has_incoming_{false};
  std::atomic<bool> is_asleep_{false};  // it waits for the kernel, or is about to
  std::atomic<bool> stopped_{false};
  std::unordered_map<std::string, Name> names_;
  std::unordered_map<std::string, LinePace> lines_about_;         // by the name of the backend
  std::unordered_map<std::string, std::vector<Asker*>> waiting_;  // by name being looked up
  std::vector<std::unique_ptr<Helper>> helpers_;  // joined before anything above goes
  std::thread thread_;
};

}  // namespace recourse
