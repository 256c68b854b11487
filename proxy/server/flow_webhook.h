// Tells somebody outside when a flow needs a human, or when nobody has found out for long whether a
// write took effect: one signed POST for each, until it is taken or there is nothing left to say.
// Off the write path.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/saga/flow_runner.h"
#include "filters/upstream.h"
#include "policy/policy.h"
#include "proxy/base/clock.h"
#include "proxy/base/executor.h"

namespace recourse {

// "t=1790000000,v1=9f86...": the hex HMAC-SHA-256 of "1790000000." and the body.
std::string WebhookSignature(std::string_view secret, std::int64_t unix_seconds,
                             std::string_view body);

// Everything happens on the thread of Parts::executor. Holds numbers of flows and operations only,
// so its queue is bounded by limits::kFlowsMax and kOpenOperationsMax, and what it says is what the
// ledger holds then.
class FlowWebhook {
 public:
  struct Parts {
    Ledger& ledger;
    Upstream& upstream;  // of the executor's thread
    Executor& executor;
    Timer& timer;
    const Clock& clock;
    std::function<std::shared_ptr<const Policy>()> policy;  // in force
    ReadSecret read_secret;
    std::function<void(bool is_taken)> count;  // each try
  };
  // An outcome that is unknown for so long is news: probes have had their time.
  static constexpr Millis kUnknownFor{5 * 60'000};
  explicit FlowWebhook(Parts parts) : parts_(std::move(parts)) {}

  // Tells of the flows that are parked already, then of each that Tell() names, as long as the
  // process lives. Call once, on the executor's thread.
  Task<void> Run();
  // Looks for operations of unknown outcome and has Run() tell of each once, and after a restart
  // once more. Call once, on the executor's thread.
  Task<void> WatchUnknown();
  void Tell(const FlowNews& news);
  // Ends both within kLook, and no further news is told.
  void Stop();

 private:
  static constexpr Millis kLook{10'000};

  struct News {
    enum class Of : std::uint8_t { kFlow, kOperation };
    Of of = Of::kFlow;
    std::uint64_t number = 0;
    auto operator<=>(const News&) const = default;
  };
  void Add(News news);
  Task<void> LoadParked();
  Task<void> LookForUnknown();
  // True: nothing is left to be said of that.
  Task<bool> Deliver(News news, FlowRules::Webhook hook);
  // The body to send; empty: what it was about is over.
  Task<std::string> BodyAbout(News news, bool is_slack);
  Task<std::optional<FlowState>> Parked(std::uint64_t number);
  Task<std::string> BodyOf(FlowState state);
  Task<Result<int>> Post(FlowRules::Webhook hook, std::string body);
  const Backend* BackendOf(const std::string& url);

  const Parts parts_;
  std::set<News> waiting_;             // to be told of
  News last_;                          // told of last
  std::set<std::uint64_t> announced_;  // operations that are unknown still
  bool is_stopping_ = false;
  std::string url_;  // of backend_
  std::optional<Backend> backend_;
  std::optional<Promise<bool>> wake_;  // set while Run() has nothing to say
};

}  // namespace recourse
