// How long a client may still take over its body. Pure; knows no socket.
#pragma once

#include <algorithm>
#include <chrono>

#include "proxy/base/clock.h"
#include "proxy/base/limits.h"

namespace recourse {

// Waiting for the client uses up `grace`; what arrives gives time back at kBodyBytesPerSecondMin.
// So neither silence nor a byte a second goes on for ever, and a body of any size may stream.
class TransferPace {
 public:
  explicit TransferPace(Millis grace) : grace_(grace), left_(grace) {}

  // When a read that begins now must have brought something.
  MonoTime Until(MonoTime now) const { return now + left_; }
  // A read that began at `began` brought `size` bytes at `now`.
  void Took(MonoTime began, MonoTime now, std::size_t size) {
    const std::chrono::nanoseconds earned{size * kNanosPerByte};
    left_ = std::min<std::chrono::nanoseconds>(left_ - (now - began) + earned, grace_);
  }

 private:
  static constexpr std::size_t kNanosPerByte = 1'000'000'000 / limits::kBodyBytesPerSecondMin;

  const std::chrono::nanoseconds grace_;
  std::chrono::nanoseconds left_;
};

}  // namespace recourse
