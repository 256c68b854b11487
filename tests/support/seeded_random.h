// Bytes that look random and are the same in every run.
#pragma once

#include <cstdint>
#include <random>

#include "proxy/base/random.h"

namespace recourse {

class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed = 1) : engine_(seed) {}
  void Fill(std::span<unsigned char> out) override {
    for (unsigned char& byte : out) byte = static_cast<unsigned char>(engine_());
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace recourse
