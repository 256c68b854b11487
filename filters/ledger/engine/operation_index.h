// Which operation a key, an intent or a mark means, and under which key an operation is found. What
// rows say of that, live rows and replayed ones alike.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/engine/ledger_log.h"
#include "filters/ledger/engine/ledger_parts.h"
#include "filters/ledger/engine/open_operations.h"
#include "filters/ledger/index/key_index.h"
#include "filters/ledger/rows/row_codec.h"
#include "filters/ledger/rules/known.h"
#include "proxy/base/error.h"

namespace recourse {

// One thread at a time.
class OperationIndex {
 public:
  OperationIndex(const LedgerParts& parts, LedgerLog& log, OpenOperations& open);

  KeyIndex& keys() { return keys_; }
  const KeyIndex& keys() const { return keys_; }
  // Operations that were ever begun, and tombstones that are kept.
  std::uint64_t operations() const { return operations_; }
  std::uint64_t tombstones() const { return tombstones_; }
  // Operations that are kept though their first row is not, with their keys.
  const std::map<std::uint64_t, Digest>& moved() const { return moved_; }

  // Leaves out tombstones.
  Result<std::optional<FoundOperation>> Find(std::uint64_t operation);

  // What the event in the row `seq` changes. `previous` is its operation until then.
  void Apply(const EventFront& front, std::uint64_t seq, std::int64_t wall_ms,
             const KeyEntry* previous);
  void Apply(const RetiredRow& retired, std::uint64_t seq);
  // A call that a human has denied is found by what it was about.
  void NoteNo(std::string_view caller, std::string_view tool, const Digest& args_hash,
              std::uint64_t operation);
  void SetAnswered(const FoundOperation& found, bool is_answered);
  // The effect in the row `seq` is not found by its marks any more.
  void ForgetMarks(const EventFront& front, std::uint64_t seq);
  void AddTombstones(std::int64_t count) { tombstones_ += static_cast<std::uint64_t>(count); }

  // At the start.
  void Restore(const IndexMark& mark);
  void Replay(const RetiredRow& retired, std::uint64_t seq);
  void ReplayOpen(const EventFront& front, std::uint64_t seq);
  void FillMark(IndexMark& mark) const;

 private:
  struct KeyOfOperation {
    std::uint64_t operation = 0;
    Digest key{};
  };

  Result<std::optional<Digest>> KeyOf(std::uint64_t operation);
  // The operation that stood for the intent until then, while `front` is open.
  std::uint64_t NoteIntent(const EventFront& front);
  // What was sent last stands before those of its intent that are not over.
  void LinkIntent(const Digest& intent, std::uint64_t operation, std::uint64_t last);
  std::uint64_t BeforeInIntent(const Digest& intent, std::uint64_t operation);  // 0: none
  void NoteWrite(const EventFront& front, std::uint64_t seq, const KeyEntry* previous);

  LedgerLog& log_;
  OpenOperations& open_;
  KeyIndex keys_;
  // All of them were open when their first row was as old as the retention, so they are not more
  // than kOpenOperationsMax by much.
  std::map<std::uint64_t, Digest> moved_;
  std::uint64_t operations_ = 0;
  std::uint64_t tombstones_ = 0;
  // Where an operation's key is found without reading the log; slot = operation % kRecentKeys. It
  // grows to the slots in use, as a start need not touch memory for all.
  static constexpr std::size_t kRecentKeys = 16'384;
  std::vector<KeyOfOperation> recent_keys_;
  std::string row_;  // reused
};

}  // namespace recourse
