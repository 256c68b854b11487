// Bounds failed logins of one address and of all together.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "proxy/base/clock.h"

namespace recourse {

// One thread. A failure costs one of the places of its address and one of all; places come back
// with time. `peer` is an address as text, or the network that is one peer.
class LoginRateLimiter {
 public:
  explicit LoginRateLimiter(const Clock& clock) : clock_(clock) {}

  // Zero: another failure has room. Else how long until one has.
  Millis WaitOf(const std::string& peer);
  void Fail(const std::string& peer);

 private:
  struct Bucket {
    double used = 0;
    MonoTime at{};
  };
  static void Refill(Bucket& bucket, MonoTime now, Millis every);
  void Forget(MonoTime now);

  const Clock& clock_;
  Bucket all_;
  std::map<std::string, Bucket> peers_;  // at most kLoginPeersMax
};

}  // namespace recourse
