// The last traced call of each tool in each bucket of the histogram of durations, so that whoever
// looks at a bucket finds a call that is in it.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "proxy/telemetry/histogram.h"
#include "proxy/telemetry/span.h"

namespace recourse {

struct Exemplar {
  TraceIdText trace;  // empty: there was none
  SpanIdText span;
  double seconds = 0;
};
using BucketExemplars = std::array<Exemplar, Latency::kBounds.size() + 1>;

// Thread-safe. Holds as many entries as the policies of the process have tools.
class Exemplars {
 public:
  // Left out while somebody else is at it: another call will do as well.
  void Note(const std::string& tool, const TraceIdText& trace, const SpanIdText& span,
            std::chrono::nanoseconds took);
  std::map<std::string, BucketExemplars> All() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, BucketExemplars> by_tool_;  // guarded by mutex_
};

}  // namespace recourse
