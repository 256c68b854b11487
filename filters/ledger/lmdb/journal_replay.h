// What a start does with the journal that the process before it left: a pure decision.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "filters/ledger/lmdb/journal_record.h"
#include "filters/ledger/lmdb/journal_state.h"
#include "filters/ledger/rows/event_log.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

struct JournalContent {
  JournalId id{};
  JournalStamp stamp;
  std::string_view ring;  // as it lies in the file
};

struct ReplayPlan {
  RowBatch rows;                 // what the log has not; may be none
  std::uint64_t generation = 1;  // for the process that starts: larger than any that was seen
  bool is_torn = false;          // a record was being written when the process ended
  std::string lost;              // why newer rows than these are missing; empty: none are
  std::string unreadable;        // which row a later version wrote: nothing is decided then
};

// `content` is nothing when there is no sound journal of this log. The log ends at row `last`,
// whose hash is `hash` (zeros when it is empty).
ReplayPlan PlanReplay(const JournalState& state, const std::optional<JournalContent>& content,
                      std::uint64_t last, const Digest& hash);

}  // namespace recourse
