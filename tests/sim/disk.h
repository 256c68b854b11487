// What outlives the process in a simulated run: the log, every row that was ever in it, and the
// stored key index, which holds its callers to what ColdIndex asks of them, as the one in LMDB
// does.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "filters/ledger/engine/engine.h"
#include "filters/ledger/memory/memory_event_log.h"
#include "tests/sim/dice.h"

namespace recourse {

// How soon a ledger writes its index and lets rows go.
struct SimScale {
  bool is_crowded = false;  // many keys come while calls wait for their approval
  std::size_t hot_entries_max = limits::kHotIndexEntriesMax;
  std::optional<LedgerRule> rule;
  unsigned index_fault_percent = 0;
};

class SimDisk {
 public:
  SimDisk(Dice& dice, SimScale scale) : dice_(dice), scale_(std::move(scale)) {}
  // For one life. What it refers to is this.
  LedgerParts Open();
  void StopFailing() { scale_.index_fault_percent = 0; }

  const SimScale& scale() const { return scale_; }
  EventLog& every_row() { return every_row_; }
  int checkpoints() const { return checkpoints_; }
  // Those where a call that waits for its approval was older than an open operation.
  int with_older_claims() const { return with_older_claims_; }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  class Log;
  class Index;
  std::expected<void, std::string> Store(const IndexSnapshot& snapshot);
  void Note(const IndexMark& mark);

  Dice& dice_;
  SimScale scale_;
  MemoryEventLog log_, every_row_;
  std::unordered_map<Digest, ColdEntry, DigestHash> keys_;
  std::unordered_map<Digest, std::uint64_t, DigestHash> intents_;
  std::optional<IndexMark> mark_;
  int checkpoints_ = 0, with_older_claims_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace recourse
