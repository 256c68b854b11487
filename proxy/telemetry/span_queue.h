// Which calls are traced, and the bounded queue of spans between the I/O threads and the exporter.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "filters/tracing.h"
#include "proxy/base/random.h"
#include "proxy/telemetry/span.h"

namespace recourse {

// Ids that nobody must be able to guess are not needed here, so they need not cost what those do.
// One thread.
class SpanIds {
 public:
  explicit SpanIds(Random& seed);
  void Fill(TraceIdText& id);
  void Fill(SpanIdText& id);

 private:
  std::uint64_t Next();
  std::uint64_t state_ = 0;
};

class SpanQueue final : public SpanSink {
 public:
  // `count` is told of spans that came to nothing; any thread. All outlive the tracer.
  SpanQueue(double sample_ratio, Random& random, std::function<void(std::size_t)> dropped);

  // Whether a trace that begins here is sampled: follows from its id, so that everybody who asks
  // gets the same answer.
  bool Samples(std::string_view trace_id) const;
  // Drops it, counted, when kQueuedMax wait. Thread-safe; takes a lock for as long as
  // it takes to move the span.
  void Add(Span span);
  // All that wait. Thread-safe, as waiting().
  std::vector<Span> Take();
  std::size_t waiting() const;

  void Begin(OwnRequest& request) override;
  void Ended(const OwnRequest& request) override;

 private:
  static constexpr std::size_t kQueuedMax = 4'096;  // some 2 MiB
  static constexpr std::size_t kRecentMax = 4'096;
  static constexpr std::chrono::hours kRecentFor{1};  // viewers show a trace near its beginning

  void Remember(const Span& attempt);
  bool IsRecent(const std::string& trace, MonoTime now) const;

  const std::uint64_t threshold_;  // of 56 random bits of a trace id, from where on it is sampled
  Random& random_;
  const std::function<void(std::size_t)> dropped_;
  mutable std::mutex mutex_;
  std::vector<Span> queue_;  // guarded by mutex_, as those below
  // Traces with a write whose attempt was told, the oldest first, and when the last one ended.
  std::deque<std::string> remembered_;
  std::unordered_map<std::string, MonoTime> recent_;
};

}  // namespace recourse
