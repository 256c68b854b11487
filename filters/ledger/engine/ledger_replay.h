// Takes over at the start what the log holds already.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "filters/ledger/engine/ledger_state.h"
#include "filters/ledger/engine/row_writer.h"
#include "filters/ledger/index/key_index.h"
#include "filters/ledger/rows/row_codec.h"

namespace recourse {

// Over one start.
class LedgerReplay {
 public:
  LedgerReplay(LedgerState& state, RowWriter& rows) : state_(state), rows_(rows) {}

  // Takes over what a checkpoint of the index knew about the log up to the checkpoint's row. Fails
  // with the number of a row that cannot be read.
  std::expected<void, std::uint64_t> Restore(const IndexMark& mark);
  // Every later row in order, from the log's base where there is no checkpoint. Fails with a static
  // reason when the row is not what should follow.
  std::expected<void, std::string_view> Replay(std::uint64_t seq, std::string_view bytes);
  // This process begins.
  void StartEpoch();

 private:
  bool RestoreOpen(const OpenReference& open);
  bool ReplayPayload(const RowView& row);
  bool ReplayOrder(const RowView& row);
  bool ReplayAnswered(const RowView& row);
  bool ReplayEvent(const RowView& row);

  LedgerState& state_;
  RowWriter& rows_;
  std::string row_;  // reused
};

}  // namespace recourse
