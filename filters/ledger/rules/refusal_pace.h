// How often one call that had no effect is tried anew. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <unordered_map>

#include "policy/model/principal.h"
#include "proxy/base/clock.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/limits.h"

namespace recourse {

// Counts in minutes that begin with the first try of one, each principal for itself: whose
// credentials are refused holds up nobody with better ones. Forgets all at a restart.
class RefusalPace {
 public:
  // Counts a try; nullopt: it may go. Else it may go after so long.
  std::optional<Millis> Take(const Digest& key, Principal principal, MonoTime now) {
    const Tried tried{key, principal};
    if (tries_.empty() || now - began_ >= kMinute) {
      tries_.clear();
      began_ = now;
    }
    if (tries_.size() >= limits::kRefusedCounted && !tries_.contains(tried)) return {};
    int& tries = tries_[tried];
    if (tries >= limits::kRefusedPerMinute) {
      return std::chrono::ceil<Millis>(began_ + kMinute - now);
    }
    ++tries;
    return {};
  }

 private:
  struct Tried {
    Digest key;
    Principal principal;
    bool operator==(const Tried&) const = default;
  };
  struct TriedHash {
    std::size_t operator()(const Tried& tried) const {
      return DigestHash()(tried.key) ^ static_cast<std::size_t>(tried.principal);
    }
  };
  static constexpr Millis kMinute{60'000};

  MonoTime began_{};
  std::unordered_map<Tried, int, TriedHash> tries_;
};

}  // namespace recourse
