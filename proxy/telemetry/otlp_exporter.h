// Sends spans to a collector by OTLP/HTTP, in batches, from a thread of its own. What it cannot
// deliver is counted and forgotten: traces never cost a call anything.
#pragma once

#include <atomic>
#include <expected>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "proxy/config/config.h"
#include "proxy/net/loop/io_thread.h"
#include "proxy/net/upstream/upstream_pool.h"
#include "proxy/net/upstream/write_client.h"
#include "proxy/telemetry/otlp_json.h"
#include "proxy/telemetry/span_queue.h"

namespace recourse {

class OtlpExporter {
 public:
  enum class Result : std::uint8_t { kExported, kRefused, kDropped };
  struct Parts {
    SpanQueue& tracer;
    const Clock& clock;
    Random& random;
    const OwnListeners& own;
    std::string via;
    OtlpSettings settings;
    std::function<void(Result result, std::size_t spans)> count;  // on the exporter's thread
  };
  // Fails with one line for people when the endpoint or a file that the settings name cannot be
  // used.
  static std::expected<std::unique_ptr<OtlpExporter>, std::string> Make(Parts parts);

  void Start();
  // Sends what waits, for kFlush at most, and ends the thread. Blocking; call once.
  void Finish();

 private:
  static constexpr std::size_t kSpansPerExport = 512;
  static constexpr std::size_t kAnswerBytesMax = 64 * 1024;
  static constexpr int kTriesMax = 5;  // of one export, with growing pauses
  static constexpr Millis kInterval{1'000}, kTick{100}, kBackoffFirst{1'000};
  static constexpr Millis kFlush{2'000};  // at the end of the process

  OtlpExporter(Parts parts, Backend collector);
  Task<void> Run();
  Task<void> Deliver(std::span<const Span> spans);
  Task<recourse::Result<ExportVerdict>> Post(const std::string& body);
  Task<void> Rest(int failures);
  void Tell(const std::string& trouble);

  const Parts parts_;
  const Backend collector_;
  ResourceAttributes resource_;
  IoThread thread_;
  UpstreamPool streams_;
  WriteUpstream upstream_;
  bool is_failing_ = false;  // and the log says so
  std::atomic<bool> finishing_{false};
  std::promise<void> finished_;
};

}  // namespace recourse
