// What a verb does to the ledger, as values: rows in their order, and who is to be told.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "filters/ledger/model/event.h"
#include "filters/ledger/model/flow.h"
#include "filters/ledger/rows/row_codec.h"
#include "filters/ledger/rules/key_entry.h"

namespace recourse {

// Each names what it follows on. Where several processes write, that is its guard: who finds
// something else there decides anew. A single writer never does.
struct EventWrite {
  Event event;                        // its row, epoch and time are the store's to say
  std::optional<KeyEntry> follows{};  // nullopt: it begins its operation
  // As what it counts among its caller's.
  enum class Counts : std::uint8_t { kNothing, kAttempt, kOperation };
  Counts counts = Counts::kNothing;
};
struct FlowWrite {
  FlowState state;  // its row likewise
};
struct AliasWrite {
  Alias alias;
};
using RowWrite = std::variant<EventWrite, FlowWrite, AliasWrite>;

struct Plan {
  std::vector<RowWrite> writes{};
  // Operations that waited for a human and do so no more, beside what the verb is about: whoever
  // waits for them is told after the commit.
  std::vector<std::uint64_t> ended{};
};

}  // namespace recourse
