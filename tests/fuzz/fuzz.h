// What fuzz targets share.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "proxy/base/check.h"

namespace recourse {

// The target, one per program: checks properties of what `bytes` mean. Whatever does not hold ends
// the process, which the fuzzer takes for a finding. `bytes` end where their heap block ends, so
// that a sanitizer sees any read behind them.
void FuzzOne(std::string_view bytes);

// A copy in a heap block of its exact size.
class ExactBytes {
 public:
  explicit ExactBytes(std::string_view bytes) : copy_(new char[bytes.size()]), size_(bytes.size()) {
    bytes.copy(copy_.get(), size_);
  }
  std::string_view view() const { return {copy_.get(), size_}; }

 private:
  std::unique_ptr<char[]> copy_;
  std::size_t size_;
};

}  // namespace recourse
