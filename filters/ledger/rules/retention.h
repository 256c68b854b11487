// What becomes of rows that are older than the retention. Pure.
#pragma once

#include <cstdint>

#include "filters/ledger/rows/row_codec.h"

namespace recourse {

enum class RetentionFate : std::uint8_t {
  kCarry,      // still open: moves on to the end of the log, unchanged
  kTombstone,  // its key is remembered
  kForget,     // a repeat would be a first execution, or nothing can repeat it
};

// Of an event that is the last one of its operation and what its key means. `newest_generation` is
// the one that the key of generation 0 names.
RetentionFate FateOf(const EventFront& front, std::uint32_t newest_generation);

// Whether a tombstone that ended is still needed: some generation of its key is kept.
enum class Later : std::uint8_t { kNone, kKept };
bool IsOver(const Tombstone& tombstone, Later generations, std::int64_t lived_ms,
            std::int64_t tombstones_ms);

}  // namespace recourse
