// Writes frozen parts of the key index on a thread of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "filters/ledger/index/key_index.h"
#include "proxy/base/clock.h"

namespace recourse {

// Between two tries of a write that fails: the first one, then twice as long each time.
struct CheckpointPauses {
  Millis first{5'000};
  Millis longest{30'000};
};

class Checkpointer {
 public:
  // `cold` may be null: then nothing is ever submitted.
  explicit Checkpointer(ColdIndex* cold, CheckpointPauses pauses = {});
  // Waits for the write that runs.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // One snapshot at a time: the next one only after is_done() said true. A failed write is
  // logged and repeated with a pause until it succeeds or the object goes away.
  void Submit(std::shared_ptr<const IndexSnapshot> snapshot);
  // The submitted snapshot is stored. Cheap.
  bool is_done() const { return is_done_.load(std::memory_order_acquire); }
  // The last write failed, and is tried again. Cheap, thread-safe.
  bool is_failing() const { return is_failing_.load(std::memory_order_relaxed); }
  // Blocks until the submitted snapshot is stored, or a write of it has failed: false.
  bool Finish();
  // Waits for the write that runs, and does not try again what is not stored then: for whoever
  // clears the index, which its mark would call whole.
  void GiveUp();

 private:
  void Run();

  ColdIndex* const cold_;
  const CheckpointPauses pauses_;
  std::atomic<bool> is_done_ = true;
  std::atomic<bool> is_failing_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const IndexSnapshot> snapshot_;  // guarded by mutex_
  bool has_failed_ = false;                        // guarded by mutex_
  bool is_writing_ = false;                        // guarded by mutex_
  bool is_stopping_ = false;                       // guarded by mutex_

  std::thread thread_;
};

}  // namespace recourse
