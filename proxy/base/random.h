#pragma once

#include <cstddef>
#include <span>

namespace recourse {

// Source of unpredictable bytes; seeded in tests. Thread-safe.
class Random {
 public:
  virtual ~Random() = default;
  virtual void Fill(std::span<unsigned char> out) = 0;
};

// OpenSSL's generator. Ends the process if the system gives no entropy.
class SystemRandom final : public Random {
 public:
  void Fill(std::span<unsigned char> out) override;
};

}  // namespace recourse
