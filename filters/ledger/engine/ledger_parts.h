// What a ledger's engine stands on.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "filters/ledger/index/key_index.h"
#include "filters/ledger/rows/event_log.h"
#include "filters/ledger/rows/row_codec.h"
#include "proxy/base/limits.h"

namespace recourse {

// `resources` holds what must be let go last, such as the lock of the directory.
struct LedgerParts {
  std::shared_ptr<void> resources;
  std::unique_ptr<EventLog> log;
  std::unique_ptr<ColdIndex> cold;           // null: the index stays in memory
  std::shared_ptr<const LedgerKeys> keys{};  // null: rows are written in clear
  std::size_t hot_entries_max = limits::kHotIndexEntriesMax;
  // Set when the log came from a backup and nobody has accepted that yet: remembers, durably, that
  // somebody has. Thread-safe.
  std::function<std::expected<void, std::string>()> accept_restored{};
};

// Where the log ends.
struct LogHead {
  std::uint64_t seq = 0;
  std::uint64_t epoch = 0;
  Digest hash{};
};

}  // namespace recourse
