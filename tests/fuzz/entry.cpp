// Where libFuzzer enters a target.
#include <cstdint>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  recourse::FuzzOne(recourse::ExactBytes({reinterpret_cast<const char*>(data), size}).view());
  return 0;
}
