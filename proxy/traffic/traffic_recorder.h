// Writes down what observe mode sees, on a thread of its own: neither reading a body nor a slow
// disk holds a call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "proxy/base/random.h"
#include "proxy/traffic/seen_call.h"
#include "proxy/traffic/traffic_file.h"

namespace recourse {

class TrafficRecorder {
 public:
  // `random` outlives it.
  TrafficRecorder(std::string directory, const std::string& install_secret, Random& random);
  TrafficRecorder(const TrafficRecorder&) = delete;
  TrafficRecorder& operator=(const TrafficRecorder&) = delete;
  // Writes what is queued.
  ~TrafficRecorder();

  // Thread-safe; does not wait. Beyond kQueueBytesMax calls are left out: they are samples.
  void Add(SeenCall call);

 private:
  // Who reads the file misses no call that ended longer ago, but for the time of one write.
  static constexpr std::chrono::milliseconds kBetweenWrites{20};
  static constexpr std::size_t kQueueBytesMax = 8 * 1024 * 1024;
  static constexpr std::size_t kFileBytesMax = 8 * 1024 * 1024;  // of two
  void Run();
  void Write(const std::string& lines);

  const std::string directory_;
  const TrafficKeys keys_;
  Random& random_;
  bool has_failed_ = false;  // the thread's own
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<SeenCall> queue_;  // guarded by mutex_, like what follows
  std::size_t queued_bytes_ = 0;
  bool stop_ = false;
  std::thread thread_;  // since the first call
};

// nullptr where there is no secret, as there is no ledger.
std::unique_ptr<TrafficRecorder> RecorderIn(const std::string& directory,
                                            const std::string& install_secret, Random& random);

}  // namespace recourse
