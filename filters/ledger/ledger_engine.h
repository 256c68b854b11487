// The ledger without threads: decides, builds the rows of one batch and their hash chain, keeps the
// index and the set of open operations. The ledgers around it decide when a batch is committed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "filters/ledger/begin_decision.h"
#include "filters/ledger/event_log.h"
#include "filters/ledger/key_index.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/record_codec.h"
#include "proxy/base/limits.h"

namespace recourse {

// Everything an engine stands on. `resources` holds what must be let go last, such as the lock of
// the directory.
struct LedgerParts {
  std::shared_ptr<void> resources;
  std::unique_ptr<EventLog> log;
  std::unique_ptr<ColdIndex> cold;  // null: the index stays in memory
  std::size_t hot_entries_max = limits::kHotIndexEntriesMax;
};

// Where the log ends.
struct LogHead {
  std::uint64_t seq = 0;
  std::uint64_t epoch = 0;
  Digest hash{};
};

// One thread at a time. After a failed Commit nothing is written any more; what was committed can
// still be read.
class LedgerEngine {
 public:
  LedgerEngine(LedgerParts parts, const Clock& clock);

  // Start (recovery.cpp): takes over what a checkpoint of cold() knew about the log up to the
  // checkpoint's row, then every later row in order, then begins a new epoch.
  // Fails with the number of a row that cannot be read.
  std::expected<void, std::uint64_t> Restore(const IndexMark& mark);
  // Fails with a static reason when the row is not what should follow.
  std::expected<void, std::string_view> Replay(std::uint64_t seq, std::string_view bytes);
  void StartEpoch();

  struct BeginStep {
    Begun begun;  // kFresh: whole, but for `commit`
    // Not 0: the row that holds begun.event; it stands in the batch, so the answer may leave only
    // after the commit, by way of Load.
    std::uint64_t load_after_commit = 0;
  };
  // Takes what it needs out of `call`, unless it asks for load_after_commit. An error with
  // Delivery::kUncertain: there is, or may be, such an operation, and it may have had its effect.
  Result<BeginStep> Begin(NewOperation& call);
  Result<Event> Record(Transition& transition);
  void MarkAnswered(std::uint64_t operation);

  // The batch.
  std::size_t batch_rows() const { return batch_.size(); }
  std::size_t batch_bytes() const { return batch_.bytes.size(); }
  bool has_marks() const { return !marks_.empty(); }
  // Makes the batch durable, with the marks that wait. Fails with kLedgerUnavailable, for good.
  Result<void> Commit();

  // A committed event, with its answer.
  Result<Event> Load(std::uint64_t seq);
  // The operation's state row and phase; kInternal: no such operation.
  struct State {
    std::uint64_t last_event = 0;
    Phase phase = Phase::kNone;
  };
  Result<State> StateOf(std::uint64_t operation);
  Result<std::vector<Event>> Open(std::uint64_t after, std::size_t limit);

  bool is_latched() const { return is_latched_; }
  bool IsCommitted(std::uint64_t seq) const { return seq <= head_.seq; }
  const LogHead& head() const { return head_; }
  LedgerStats Stats();

  // Checkpoints of the index: Freeze gives what must be written into cold(), then FrozenIsStored.
  bool WantsFreeze() const { return !is_latched_ && index_.WantsFreeze(head_.seq); }
  std::shared_ptr<const IndexSnapshot> Freeze();
  void FrozenIsStored() { index_.DropFrozen(); }
  bool is_frozen() const { return index_.is_frozen(); }
  bool is_crowded() const { return index_.is_crowded(); }
  bool is_index_damaged() const { return index_.is_damaged(); }
  ColdIndex* cold() { return parts_.cold.get(); }
  EventLog& log() { return *parts_.log; }
  std::int64_t WallMs() const { return ToUnixMillis(clock_.WallNow()); }

 private:
  struct Found {
    Digest key{};
    KeyEntry entry;
  };
  struct OpenOperation {
    Digest key{};
    std::uint64_t last_event = 0;
    std::int64_t since_ms = 0;
    Phase phase = Phase::kNone;
  };
  struct KeyOfOperation {
    std::uint64_t operation = 0;
    Digest key{};
  };

  Result<std::optional<Found>> FindByKey(const Digest& key);
  Result<std::optional<Found>> FindByOperation(std::uint64_t operation);
  Result<std::optional<Found>> FindByIntent(const NewOperation& call);
  Result<std::optional<Digest>> KeyOf(std::uint64_t operation);
  bool ReadRow(std::uint64_t seq, std::string& row);

  Result<BeginStep> BeginFresh(NewOperation& call, const BeginDecision& decision,
                               const Found* found);
  Result<BeginStep> BeginLatched(NewOperation& call, const KeyEntry& entry) const;
  Result<BeginStep> BeginRepeat(const BeginDecision& decision, const Found& found);
  Result<void> AppendEvent(Event& event, const KeyEntry* previous);
  void AppendAlias(const Digest& key, std::uint64_t operation);
  void AppendMarks();
  RowHead NextHead(RowKind kind) const;
  void CloseRow();
  void Apply(const Event& event, const KeyEntry* previous);
  bool ReplayPayload(const RowView& row);
  void ApplyFront(const EventFront& front, std::uint64_t seq, std::int64_t wall_ms,
                  const KeyEntry* previous);
  void TrackOpen(std::uint64_t operation, const OpenOperation& state);
  std::int64_t OldestPendingMs();

  // constant after construction
  LedgerParts parts_;
  const Clock& clock_;
  const std::unique_ptr<EventLog::Reader> reader_;

  LogHead head_;    // of what is committed
  Digest chain_{};  // hash of the last row built
  RowBatch batch_;
  std::vector<std::uint64_t> marks_;
  bool is_latched_ = false;

  KeyIndex index_;
  std::map<std::uint64_t, OpenOperation> open_;  // by operation
  std::uint64_t running_ = 0;
  // Where MarkAnswered finds the key without reading the log; slot = operation % size.
  std::vector<KeyOfOperation> recent_keys_;

  std::uint64_t operations_ = 0;
  std::uint64_t commits_ = 0;
  std::int64_t oldest_pending_ms_ = 0;
  std::string row_;  // reused
};

}  // namespace recourse
