// Gives memory that the heap holds and nobody uses back to the system once a crowd has gone: what
// was freed between things that stay is kept by the allocator otherwise, for ever.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "proxy/base/clock.h"

namespace recourse {

// Bytes of the process.
struct HeapSize {
  std::size_t resident = 0;  // in memory, without pages of files
  std::size_t free = 0;      // that the heap has to give out; some of it is in memory
};

// When that is worth its time: the process takes much more than it once did, or has freed much
// since. Pure.
class TrimRule {
 public:
  static constexpr std::size_t kSlackBytes = 16 * 1024 * 1024;

  explicit TrimRule(HeapSize now) : least_(now) {}
  bool IsWorthIt(HeapSize now) {
    least_.resident = std::min(least_.resident, now.resident);
    least_.free = std::min(least_.free, now.free);
    return now.resident - least_.resident > kSlackBytes || now.free - least_.free > kSlackBytes;
  }
  // What a trim has left.
  void Trimmed(HeapSize now) { least_ = now; }

 private:
  HeapSize least_;
};

// One thread.
class HeapTrim {
 public:
  // Call when there is less to do than before: it takes milliseconds when there is much to give,
  // and so is done once in ten seconds at most. True: it is too early, and to be called again.
  bool Look(MonoTime now);

 private:
  static constexpr std::chrono::seconds kPause{10};
  static HeapSize Size();

  TrimRule rule_{Size()};
  MonoTime due_{};
};

}  // namespace recourse
