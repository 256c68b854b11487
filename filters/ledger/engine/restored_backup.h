// A ledger that came from a backup: what was done after it is not remembered, so new operations are
// refused until an operator says that this is known.
#pragma once

#include <atomic>
#include <expected>
#include <functional>
#include <string>
#include <utility>

#include "proxy/base/log/log.h"

namespace recourse {

// Thread-safe.
class RestoredBackup {
 public:
  // `accept` remembers, durably, that somebody has accepted it; unset: there is nothing to accept.
  explicit RestoredBackup(std::function<std::expected<void, std::string>()> accept)
      : accept_(std::move(accept)), waits_(accept_ != nullptr) {}

  bool waits() const { return waits_.load(std::memory_order_acquire); }
  // Fails with a line for people.
  std::expected<void, std::string> Accept() {
    if (!waits()) return {};
    if (auto accepted = accept_(); !accepted) return accepted;
    waits_.store(false, std::memory_order_release);
    Log(LogLevel::kWarn, "the restored ledger was accepted; new writes are let through");
    return {};
  }

 private:
  const std::function<std::expected<void, std::string>()> accept_;
  std::atomic<bool> waits_;
};

}  // namespace recourse
