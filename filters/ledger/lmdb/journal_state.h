// What a log remembers, durably, of the journal beside it.
#pragma once

#include <array>
#include <cstdint>

namespace recourse {

// Random per file and told to nobody: bytes of a request that lie in a block by themselves cannot
// pass for a record.
using JournalId = std::array<unsigned char, 16>;

struct JournalState {
  std::uint64_t generation = 0;  // counts the processes that opened a journal
  bool is_open = false;          // there may be rows in it that the log has not
  JournalId id{};                // of the file that it is
};

}  // namespace recourse
