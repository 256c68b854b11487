#include "proxy/telemetry/unguarded_watch.h"

#include <fstream>
#include <utility>

#include "proxy/base/log/log.h"
#include "proxy/net/beast/reach.h"
#include "proxy/telemetry/metric_table.h"

namespace recourse {
namespace {

constexpr std::string_view kUnguarded = "recourse_unguarded_connections_total";

constexpr Millis kPause{1'000};
// The kernel's table changes while it is read, so that one look may lack what is there. A number of
// a socket is not used again for longer than this.
constexpr Millis kSeenLasts{60'000};
constexpr Millis kNamesLast{60'000}, kNextWarning{60'000};
constexpr std::size_t kTableBytesMax = 8 * 1024 * 1024, kSocketsMax = 50'000;
constexpr std::size_t kAddressesMax = 4096;

std::string TableOf(const char* path) {
  std::ifstream file(path);
  std::string text(kTableBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

UnguardedWatch::UnguardedWatch(CurrentPolicy policy, Guarded guarded, Metrics& metrics,
                               const Clock& clock)
    : policy_(std::move(policy)),
      guarded_(guarded),
      clock_(clock),
      found_(prometheus::BuildCounter()
                 .Name(std::string(kUnguarded))
                 .Help(MetricNamed(kUnguarded).help())
                 .Register(metrics.registry)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

UnguardedWatch::~UnguardedWatch() {
  thread_.request_stop();
  ends_.notify_all();
}

void UnguardedWatch::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto policy = policy_();
    if (policy != looked_up_ || clock_.Now() >= look_up_at_) LookBackendsUp(policy);
    Look();
    ends_.wait_for(lock, stop, kPause, [] { return false; });
  }
}

// A name that leads nowhere now keeps no other from being looked up.
void UnguardedWatch::LookBackendsUp(const std::shared_ptr<const Policy>& policy) {
  looked_up_ = policy;
  look_up_at_ = clock_.Now() + kNamesLast;
  backends_.clear();
  for (const Backend& backend : policy->backends) {
    found_.Add({{"backend", backend.name}});
    const auto addresses = LookUp(backend.host);
    if (!addresses) continue;
    for (const auto& address : *addresses) {
      if (backends_.size() >= kAddressesMax) return;
      backends_.push_back({{address, backend.port}, backend.name});
    }
  }
}

void UnguardedWatch::Look() {
  std::vector<TcpSocket> sockets = ReadSocketTable(TableOf("/proc/net/tcp"), kSocketsMax);
  for (const TcpSocket& one : ReadSocketTable(TableOf("/proc/net/tcp6"), kSocketsMax)) {
    sockets.push_back(one);
  }
  const MonoTime now = clock_.Now();
  for (const Unguarded& one : FindUnguarded(sockets, backends_, guarded_)) {
    if (!seen_.insert_or_assign(one.inode, now).second) continue;
    found_.Add({{"backend", one.backend}}).Increment();
    if (now < tell_at_) continue;
    tell_at_ = now + kNextWarning;
    Log(LogLevel::kWarn, "a connection to a backend went past Recourse",
        {{"backend", one.backend}, {"user", std::to_string(one.user)}});
  }
  const bool are_many = seen_.size() > kSocketsMax;
  std::erase_if(seen_, [&](const auto& one) {
    return now - one.second > kSeenLasts || (are_many && one.second != now);
  });
}

}  // namespace recourse
