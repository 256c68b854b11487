#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace recourse {

// Source of unpredictable bytes; seeded in tests. Thread-safe.
class Random {
 public:
  virtual ~Random() = default;
  virtual void Fill(std::span<unsigned char> out) = 0;
};

// A number for pauses that many processes must not take alike.
inline std::uint32_t Jitter(Random& random) {
  std::array<unsigned char, sizeof(std::uint32_t)> drawn{};
  random.Fill(drawn);
  return std::bit_cast<std::uint32_t>(drawn);
}

// OpenSSL's generator. Ends the process if the system gives no entropy.
class SystemRandom final : public Random {
 public:
  void Fill(std::span<unsigned char> out) override;
};

}  // namespace recourse
