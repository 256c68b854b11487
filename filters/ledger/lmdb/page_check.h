// Looks at the pages of an LMDB 0.9 file before LMDB does. LMDB trusts what it maps: a damaged page
// can end the process, or lose the newest commit without a word.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <span>
#include <string>

namespace recourse {

// Reads `out.size()` bytes at `offset`; false when they are not there.
using ReadBytes = std::function<bool(std::uint64_t offset, std::span<char> out)>;
// Told which bytes will be read soon, so that a disk reads them side by side.
using ExpectBytes = std::function<void(std::uint64_t offset, std::uint64_t bytes)>;

struct PageFacts {
  std::uint64_t transaction = 0;  // of the newest commit
  // False: the head of the commit before it was written by a later one, which either failed or is
  // lost because a bit of its number flipped.
  bool is_newest_sure = true;
};

// Checks both meta pages, every page of the free list and of the small databases, and of the large
// ones the pages that the next commits touch: from the newest backwards, `pages_max` in all. Rows
// on pages beyond that are checked when they are read. Fails with a line for people that names the
// page. Pure apart from `read` and `expect`.
std::expected<PageFacts, std::string> CheckPages(const ReadBytes& read, const ExpectBytes& expect,
                                                 std::uint64_t file_bytes, std::size_t pages_max);

}  // namespace recourse
