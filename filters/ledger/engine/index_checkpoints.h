// The key index as it is stored now and then: taken away to be written, and dropped once it is.
#pragma once

#include <memory>

#include "filters/ledger/engine/ledger_state.h"
#include "filters/ledger/index/key_index.h"

namespace recourse {

// One thread at a time. Freeze gives what must be written into cold(), then FrozenIsStored.
class IndexCheckpoints {
 public:
  explicit IndexCheckpoints(LedgerState& state) : state_(state) {}

  ColdIndex* cold() { return state_.parts.cold.get(); }  // null: the index stays in memory
  bool WantsFreeze() const;
  std::shared_ptr<const IndexSnapshot> Freeze();
  void FrozenIsStored() { keys().DropFrozen(); }
  const std::shared_ptr<const IndexSnapshot>& frozen() const { return keys().frozen(); }
  bool is_crowded() const { return keys().is_crowded(); }
  bool is_full() const { return keys().is_full(); }
  bool is_damaged() const { return keys().is_damaged(); }
  // This start found no whole index of this log. Constant after the start.
  void NoteRebuilt() { is_rebuilt_ = true; }
  bool is_rebuilt() const { return is_rebuilt_; }

 private:
  KeyIndex& keys() const { return state_.index.keys(); }

  LedgerState& state_;
  bool is_rebuilt_ = false;
};

}  // namespace recourse
