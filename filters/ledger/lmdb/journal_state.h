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

// What the file remembers of that in turn. Each step but the first one is noted once the log has
// noted it durably: a log that knows less is an older copy.
enum class JournalStep : std::uint8_t { kAnnounced = 0, kBegun = 1, kClosed = 2 };

struct JournalStamp {
  std::uint64_t generation = 0;
  JournalStep step = JournalStep::kAnnounced;
};

}  // namespace recourse
