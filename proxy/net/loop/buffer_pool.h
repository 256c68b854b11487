// Buffers of one thread for bytes on their way.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "proxy/base/low_watermark.h"
#include "proxy/net/loop/periodic_tasks.h"

namespace recourse {

// A buffer of kRelayBufferBytes borrowed from its thread's pool; given back when destroyed. They
// are pages of their own, not parts of the heap: of each only what was touched takes memory, and
// what is let go leaves no hole.
class BufferPool {
 public:
  struct Return {
    BufferPool* pool;
    void operator()(char* buffer) const { pool->Give(buffer); }
  };
  using Buffer = std::unique_ptr<char, Return>;

  explicit BufferPool(PeriodicTasks& upkeep) : upkeep_(upkeep) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  // The one that was given back last, whose bytes are most likely in the processor's cache. Throws
  // std::bad_alloc when there is no memory.
  Buffer Take() {
    if (free_.empty()) return Buffer(Map(), Return{this});
    char* const buffer = free_.back();
    free_.pop_back();
    low_.Took(free_.size());
    return Buffer(buffer, Return{this});
  }
  // Lets go what nobody needed since the last call. True: more is kept than always.
  bool Trim();
  std::size_t kept() const { return free_.size(); }

  static constexpr std::size_t kFloor = 8;         // are kept for whoever comes next
  static constexpr std::size_t kTrimmedMax = 256;  // by one call, so that nobody waits for it long

 private:
  static char* Map();
  void Give(char* buffer) {
    free_.push_back(buffer);
    upkeep_.Want();
  }

  PeriodicTasks& upkeep_;
  std::vector<char*> free_;  // as many at most as were in use at once since the last Trim()
  LowWatermark low_;
};

}  // namespace recourse
