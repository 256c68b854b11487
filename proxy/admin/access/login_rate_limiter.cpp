#include "proxy/admin/access/login_rate_limiter.h"

#include <algorithm>

#include "proxy/base/limits.h"

namespace recourse {
namespace {

Millis WaitFor(double used, int most, Millis every) {
  const double over = used + 1 - most;
  return over <= 0
             ? Millis{0}
             : Millis{static_cast<std::int64_t>(over * static_cast<double>(every.count())) + 1};
}

}  // namespace

void LoginRateLimiter::Refill(Bucket& bucket, MonoTime now, Millis every) {
  const std::chrono::duration<double, std::milli> passed = now - bucket.at;
  bucket.used = std::max(0.0, bucket.used - passed.count() / static_cast<double>(every.count()));
  bucket.at = now;
}

Millis LoginRateLimiter::WaitOf(const std::string& peer) {
  const MonoTime now = clock_.Now();
  Refill(all_, now, limits::kLoginFailureOfAllEvery);
  const Millis wait =
      WaitFor(all_.used, limits::kLoginFailuresOfAll, limits::kLoginFailureOfAllEvery);
  const auto known = peers_.find(peer);
  if (known == peers_.end()) return wait;
  Refill(known->second, now, limits::kLoginFailureOfPeerEvery);
  return std::max(wait, WaitFor(known->second.used, limits::kLoginFailuresOfPeer,
                                limits::kLoginFailureOfPeerEvery));
}

void LoginRateLimiter::Fail(const std::string& peer) {
  const MonoTime now = clock_.Now();
  Refill(all_, now, limits::kLoginFailureOfAllEvery);
  all_.used += 1;
  if (peers_.size() >= limits::kLoginPeersMax && !peers_.contains(peer)) Forget(now);
  if (peers_.size() >= limits::kLoginPeersMax && !peers_.contains(peer)) return;
  Bucket& bucket = peers_[peer];
  Refill(bucket, now, limits::kLoginFailureOfPeerEvery);
  bucket.used += 1;
}

// Those that have all their places back.
void LoginRateLimiter::Forget(MonoTime now) {
  for (auto at = peers_.begin(); at != peers_.end();) {
    Refill(at->second, now, limits::kLoginFailureOfPeerEvery);
    at = at->second.used <= 0 ? peers_.erase(at) : std::next(at);
  }
}

}  // namespace recourse
