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

std::vector<Watch::Silent> Watch::List(MonoTime asked, MonoTime answered,
                                       std::span<const Beat> streams) {
  std::vector<std::uint64_t> listed;
  for (const Beat& one : streams) listed.push_back(one.stream);
  ring_ = SuccessorsInRing(own_, std::move(listed));
  std::map<std::uint64_t, Seen> next;
  for (const std::uint64_t stream : ring_) next[stream] = seen_[stream];
  seen_ = std::move(next);
  const auto all = Read(asked, answered, streams);
  std::vector<Silent> near;
  std::size_t alive = 0;
  for (const std::uint64_t stream : ring_) {
    const auto dead = std::ranges::find(all, stream, &Silent::stream);
    if (dead == all.end() && ++alive == limits::kWatchedMax) break;
    if (dead != all.end()) near.push_back(*dead);
    if (near.size() == limits::kDeclaredAtOnceMax) break;
  }
  return near;
}

std::vector<std::uint64_t> Watch::watched() const {
  return {ring_.begin(),
          ring_.begin() + static_cast<std::ptrdiff_t>(std::min(ring_.size(), limits::kWatchedMax))};
}

void Watch::Failed() {
  for (auto& [stream, seen] : seen_) seen.read = MonoTime{};
}

// A beat was there at the latest when its first answer came, and still is when the newest query is
// sent: only the time between the two was certainly silent.
std::vector<Watch::Silent> Watch::Read(MonoTime asked, MonoTime answered,
                                       std::span<const Beat> beats) {
  std::vector<Silent> silent;
  for (const Beat& now : beats) {
    const auto found = seen_.find(now.stream);
    if (found == seen_.end()) continue;
    Seen& seen = found->second;
    if (now.beat < seen.beat) went_back_ = Silent{now.stream, seen.beat};
    const bool goes_on = seen.read != MonoTime{} && answered - seen.read <= limits::kWatchPauseMax;
    seen.read = answered;
    if (!goes_on || !now.has_open || now.beat != seen.beat) {
      seen.beat = now.beat;
      seen.since = answered;
    } else if (asked - seen.since >= limits::kDeadAfter) {
      silent.push_back({now.stream, now.beat});
    }
  }
  return silent;
}

}  // namespace recourse
