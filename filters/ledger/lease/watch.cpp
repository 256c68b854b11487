#include "filters/ledger/lease/watch.h"

#include <algorithm>

#include "proxy/base/backoff.h"
#include "proxy/base/lease_limits.h"

namespace recourse {

std::vector<std::uint64_t> SuccessorsInRing(std::uint64_t own, std::vector<std::uint64_t> streams) {
  std::erase(streams, own);
  std::sort(streams.begin(), streams.end());
  streams.erase(std::unique(streams.begin(), streams.end()), streams.end());
  std::rotate(streams.begin(), std::upper_bound(streams.begin(), streams.end(), own),
              streams.end());
  if (streams.size() > limits::kWatchedMax) streams.resize(limits::kWatchedMax);
  return streams;
}

Millis ListEvery(std::size_t processes, bool is_open) {
  const Millis each = is_open ? limits::kListEveryPerOpen : limits::kListEveryPerIdle;
  const auto counted = std::min<std::size_t>(processes, limits::kListedProcessesMax);
  return std::max<Millis>(limits::kListEveryMin, each * counted);
}

Millis ReconnectPause(int failures, std::uint32_t jitter) {
  const Millis bound =
      BackoffBound({limits::kReconnectPauseFirst, limits::kReconnectPauseMax}, failures);
  return Millis(jitter % static_cast<std::uint32_t>(bound.count() + 1));
}

void Watch::List(std::vector<std::uint64_t> streams) {
  std::vector<Watched> next;
  for (const std::uint64_t stream : SuccessorsInRing(own_, std::move(streams))) {
    const auto known = std::find_if(watched_.begin(), watched_.end(),
                                    [stream](const Watched& at) { return at.stream == stream; });
    next.push_back(known == watched_.end() ? Watched{.stream = stream} : *known);
  }
  watched_ = std::move(next);
}

std::vector<std::uint64_t> Watch::watched() const {
  std::vector<std::uint64_t> streams;
  for (const Watched& at : watched_) streams.push_back(at.stream);
  return streams;
}

void Watch::Failed() {
  for (Watched& at : watched_) at.read = MonoTime{};
}

// A beat was there at the latest when its first answer came, and still is when the newest query is
// sent: only the time between the two was certainly silent.
std::vector<Watch::Silent> Watch::Read(MonoTime asked, MonoTime answered,
                                       std::span<const Beat> beats) {
  std::vector<Silent> silent;
  for (const Beat& now : beats) {
    const auto at = std::find_if(watched_.begin(), watched_.end(),
                                 [&](const Watched& one) { return one.stream == now.stream; });
    if (at == watched_.end()) continue;
    const bool goes_on = at->read != MonoTime{} && answered - at->read <= limits::kWatchPauseMax;
    at->read = answered;
    if (!goes_on || !now.has_open || now.beat != at->beat) {
      at->beat = now.beat;
      at->since = answered;
    } else if (asked - at->since >= limits::kDeadAfter) {
      silent.push_back({now.stream, now.beat});
    }
  }
  return silent;
}

}  // namespace recourse
