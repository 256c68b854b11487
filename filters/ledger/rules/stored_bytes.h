// What a process has written of each caller, until retention has removed it: whoever does that says
// only up to which row of a stream. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/rules/quotas.h"

namespace recourse {

class StoredBytes {
 public:
  // Rows of one stream come in their order.
  void Add(std::uint64_t row, std::string_view caller, std::uint64_t bytes, QuotaUsage& usage) {
    usage.Store(caller, bytes);
    const RowId id = UnpackRowId(row);
    std::deque<Part>& parts = streams_[id.stream];
    if (parts.empty() || parts.back().rows >= rows_in_part_) parts.emplace_back();
    Part& part = parts.back();
    part.last = id.number;
    ++part.rows;
    part.of[std::string(caller)] += bytes;
    if (parts.size() > kPartsMax) Halve(parts);
  }
  // All of one part leave together.
  void Free(std::uint64_t stream, std::uint64_t base, QuotaUsage& usage) {
    const auto found = streams_.find(stream);
    if (found == streams_.end()) return;
    std::deque<Part>& parts = found->second;
    while (!parts.empty() && parts.front().last <= base) {
      for (const auto& [caller, bytes] : parts.front().of) usage.Free(caller, bytes);
      parts.pop_front();
    }
    if (parts.empty()) streams_.erase(found);
  }
  // Numbers of the streams that it has something of, in ascending order.
  std::vector<std::uint64_t> streams() const {
    std::vector<std::uint64_t> numbers;
    for (const auto& [stream, parts] : streams_) numbers.push_back(stream);
    return numbers;
  }

 private:
  static constexpr std::size_t kPartsMax = 256;

  struct Part {
    std::uint64_t last = 0, rows = 0;
    std::map<std::string, std::uint64_t> of;
  };

  // Two by two they are one from now on.
  void Halve(std::deque<Part>& parts) {
    rows_in_part_ *= 2;
    std::deque<Part> joined;
    for (Part& part : parts) {
      if (joined.empty() || joined.back().rows + part.rows > rows_in_part_) {
        joined.push_back(std::move(part));
        continue;
      }
      Part& to = joined.back();
      to.last = part.last;
      to.rows += part.rows;
      for (const auto& [caller, bytes] : part.of) to.of[caller] += bytes;
    }
    parts = std::move(joined);
  }

  std::uint64_t rows_in_part_ = 64;
  std::map<std::uint64_t, std::deque<Part>> streams_;
};

}  // namespace recourse
