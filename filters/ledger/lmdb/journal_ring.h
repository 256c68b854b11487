// Which part of the journal's ring each record has, from the oldest one that is still needed to the
// newest. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace recourse {

class JournalRing {
 public:
  explicit JournalRing(std::uint64_t bytes) : bytes_(bytes) {}

  // A part for the next record, in one piece. Nothing when older records are in its way.
  std::optional<std::uint64_t> Take(std::uint64_t size);
  // The `count` oldest records are needed no more.
  void Release(std::size_t count);
  // Of the records that are needed.
  std::uint64_t used() const { return used_; }

 private:
  struct Part {
    std::uint64_t at = 0, size = 0;
  };

  const std::uint64_t bytes_;
  std::deque<Part> parts_;
  std::uint64_t used_ = 0;
};

}  // namespace recourse
