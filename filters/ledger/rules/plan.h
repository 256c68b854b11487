// What a verb does to the ledger, as values: rows in their order, and who is to be told.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "filters/ledger/model/event.h"
#include "filters/ledger/model/flow.h"
#include "filters/ledger/rules/key_entry.h"

namespace recourse {

// Each names what it follows on. Where several processes write, that is its guard: who finds
// something else there decides anew. A single writer never does.
struct EventWrite {
  Event event;                        // its row, epoch and time are the store's to say
  std::optional<KeyEntry> follows{};  // nullopt: it begins its operation
};
struct FlowWrite {
  FlowState state;  // its row likewise
};
using RowWrite = std::variant<EventWrite, FlowWrite>;

struct Plan {
  std::vector<RowWrite> writes{};
  // Operations that waited for a human and do so no more, beside what the verb is about: whoever
  // waits for them is told after the commit.
  std::vector<std::uint64_t> ended{};
};

}  // namespace recourse
