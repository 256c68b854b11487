// How often one call that had no effect is tried anew. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <unordered_map>

#include "proxy/base/clock.h"
#include "proxy/base/hash.h"
#include "proxy/base/limits.h"

namespace recourse {

// Counts in minutes that begin with the first try of one. Forgets all at a restart.
class RefusalPace {
 public:
  // Counts a try; nullopt: it may go. Else it may go after so long.
  std::optional<Millis> Take(const Digest& key, MonoTime now) {
    if (tries_.empty() || now - began_ >= kMinute) {
      tries_.clear();
      began_ = now;
    }
    if (tries_.size() >= limits::kRefusedCounted && !tries_.contains(key)) return {};
    int& tries = tries_[key];
    if (tries >= limits::kRefusedPerMinute) {
      return std::chrono::ceil<Millis>(began_ + kMinute - now);
    }
    ++tries;
    return {};
  }

 private:
  static constexpr Millis kMinute{60'000};

  MonoTime began_{};
  std::unordered_map<Digest, int, DigestHash> tries_;  // by key
};

}  // namespace recourse
