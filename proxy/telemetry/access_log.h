// The access log: one JSON line per request, written by a thread of its own so that a slow disk or
// pipe never holds a request.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace recourse {

class AccessLog {
 public:
  // `target`: "-" for standard output, "off", or a file that is appended to. Throws
  // std::runtime_error when the file cannot be opened (start-up only).
  explicit AccessLog(const std::string& target);
  ~AccessLog() { Close(); }
  // Writes what is queued and ends the thread. Where nobody takes that within kLastWords, it is
  // lost: then the thread is left behind, and the process is about to end.
  void Close();
  // Its file was renamed: what comes is written to a new one of its name. Thread-safe.
  void Reopen();

  bool enabled() const { return fd_ >= 0; }
  // Queues one line with its newline. Drops it, counted, when kQueueBytesMax are waiting.
  // Thread-safe.
  void Append(std::string_view line);
  std::uint64_t dropped() const;

 private:
  static constexpr std::size_t kQueueBytesMax = 4 * 1024 * 1024;
  static constexpr std::size_t kWakeBytes = 256 * 1024;
  static constexpr std::chrono::seconds kLastWords{2};
  void Run();
  void OpenAnew();

  const std::string target_;
  int fd_ = -1;
  mutable std::mutex mutex_;
  std::condition_variable wake_, ended_;
  std::string queue_;          // guarded by mutex_
  std::uint64_t dropped_ = 0;  // guarded by mutex_
  bool stop_ = false;          // guarded by mutex_
  bool reopens_ = false;       // guarded by mutex_
  bool has_ended_ = false;     // guarded by mutex_
  std::thread thread_;
};

}  // namespace recourse
