// The reading half of LedgerEngine: look-ups, and taking over what the log already holds.
#include <algorithm>
#include <utility>

#include "filters/ledger/engine/ledger_engine.h"

namespace recourse {
namespace {

// Beyond this many open operations the oldest one is looked for now and then only.
constexpr std::size_t kOpenScannedAlways = 256;
constexpr std::uint64_t kCommitsBetweenScans = 64;

}  // namespace

bool LedgerEngine::ReadRow(std::uint64_t seq, std::string& row) {
  if (IsCommitted(seq)) return reader_->Read(seq, row);
  const std::uint64_t at = seq - batch_.first_seq;
  if (at >= batch_.size()) return false;
  row = batch_.row(at);
  return true;
}

Result<Event> LedgerEngine::Load(std::uint64_t seq) {
  Event event;
  if (!IsCommitted(seq) || !reader_->Read(seq, row_)) return std::unexpected(Unreadable(seq));
  const auto row = ParseRow(row_);
  if (!row || row->head.seq != seq || !DecodeEvent(*row, AnswerPart::kLoad, opener_, event)) {
    return std::unexpected(Unreadable(seq));
  }
  return event;
}

Result<Event> LedgerEngine::ReadEvent(std::uint64_t seq, AnswerPart part) {
  Event event;
  if (!ReadRow(seq, row_)) return std::unexpected(Unreadable(seq));
  const auto row = ParseRow(row_);
  if (!row || !DecodeEvent(*row, part, opener_, event)) {
    return std::unexpected(Unreadable(seq));
  }
  return event;
}

Result<std::optional<Digest>> LedgerEngine::KeyOf(std::uint64_t operation) {
  const std::size_t slot = operation % kRecentKeys;
  if (operation != 0 && slot < recent_keys_.size() && recent_keys_[slot].operation == operation) {
    return recent_keys_[slot].key;
  }
  if (const auto open = open_.find(operation); open != open_.end()) return open->second.key;
  if (const auto moved = moved_.find(operation); moved != moved_.end()) return moved->second;
  if (!ReadRow(operation, row_)) return std::nullopt;
  const auto row = ParseRow(row_);
  if (!row) return std::unexpected(Unreadable(operation));
  EventFront front;
  if (!DecodeEventFront(*row, front) || front.operation != operation) return std::nullopt;
  return front.key;
}

Result<std::optional<FoundOperation>> LedgerEngine::FindByOperation(std::uint64_t operation) {
  const auto key = KeyOf(operation);
  if (!key) return std::unexpected(key.error());
  if (!*key) return std::nullopt;
  const auto entry = index_.Find(**key);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry || (*entry)->operation != operation || (*entry)->is_tombstone) return std::nullopt;
  return FoundOperation{**key, **entry};
}

Result<LedgerEngine::State> LedgerEngine::StateOf(std::uint64_t operation) {
  const auto found = FindByOperation(operation);
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::unexpected(Error(ErrorCode::kInternal, "no such operation"));
  return State{(*found)->entry.last_event, (*found)->entry.phase};
}

Result<std::vector<Event>> LedgerEngine::Open(std::uint64_t after, std::size_t limit) {
  std::vector<Event> events;
  for (auto at = open_.upper_bound(after); at != open_.end() && events.size() < limit; ++at) {
    // Only a failed commit leaves an operation that cannot be read; it is open all the same.
    if (!IsCommitted(at->second.last_event)) continue;
    auto event = Load(at->second.last_event);
    if (!event) return std::unexpected(event.error());
    events.push_back(std::move(*event));
  }
  return events;
}

Result<std::vector<bool>> LedgerEngine::AreNewest(const std::vector<OperationRow>& rows) {
  std::vector<bool> newest;
  newest.reserve(rows.size());
  for (const OperationRow& row : rows) {
    const auto located = index_.Locate(row.key);
    if (!located) return std::unexpected(located.error());
    bool is_newest =
        !*located || (*located)->last_event == row.row || !IsCommitted((*located)->last_event);
    if (!is_newest) {
      // The key may mean another operation by now.
      const auto entry = index_.Find(row.key);
      if (!entry) return std::unexpected(entry.error());
      is_newest = !*entry || (*entry)->operation != row.operation;
    }
    newest.push_back(is_newest);
  }
  return newest;
}

std::int64_t LedgerEngine::DatedMs(std::uint64_t row, std::int64_t written_ms,
                                   std::int64_t wall_ms) const {
  return wall_ms - AgeMs(row, written_ms, wall_ms);
}

std::int64_t LedgerEngine::AgeMs(std::uint64_t row, std::int64_t written_ms,
                                 std::int64_t wall_ms) const {
  const MonoTime now = clock_.Now();
  return std::max(jumps_.AgeMs(row, written_ms, now, wall_ms), ages_.LeastAgeMs(now, row));
}

std::int64_t LedgerEngine::OldestPendingMs() {
  if (open_.size() > kOpenScannedAlways && commits_ % kCommitsBetweenScans != 0) {
    return oldest_pending_ms_;
  }
  std::int64_t oldest = 0;
  for (const auto& [operation, state] : open_) {
    oldest = oldest == 0 ? state.since_ms : std::min(oldest, state.since_ms);
  }
  oldest_pending_ms_ = oldest;
  return oldest;
}

LedgerStats LedgerEngine::Stats() {
  LedgerStats stats;
  stats.last_id = head_.seq;
  stats.first_id = first_seq_;
  stats.rows = head_.seq - first_seq_ + 1;
  stats.tombstones = tombstones_;
  stats.free_bytes = free_bytes_;
  stats.reserve_bytes = ReserveBytes();
  stats.locked_carried = locked_carried_;
  stats.is_full = is_full_ || index_.is_full();
  stats.quota_refusals = quota_refusals_;
  stats.oldest_row_ms = OldestRowMs();
  if (retention_ms_ > 0)
    stats.retention_lag_ms = std::max<std::int64_t>(0, stats.oldest_row_ms - retention_ms_);
  stats.operations = operations_;
  stats.running = running_;
  stats.uncertain = open_.size() - running_;
  stats.commits = commits_;
  stats.epoch = head_.epoch;
  stats.oldest_pending_ms = OldestPendingMs();
  stats.latched = is_latched_;
  stats.restored = is_restored();
  stats.approvals_pending = claims_.size();
  stats.flows_open = flows_.CountOf(FlowPhase::kOpen);
  stats.flows_breaking = flows_.CountOf(FlowPhase::kBreaking) + flows_.CountOf(FlowPhase::kUndoing);
  stats.flows_stopped = flows_.stopped();
  stats.flows_parked = flows_.CountOf(FlowPhase::kNeedsHuman) - flows_.stopped();
  stats.flows_parked_since_ms = flows_.ParkedSinceMs();
  stats.identity = parts_.log->identity();
  stats.head = head_.hash;
  return stats;
}

std::expected<void, std::uint64_t> LedgerEngine::Restore(const IndexMark& mark) {
  operations_ = mark.operations;
  tombstones_ = mark.tombstones;
  accepted_seq_ = mark.accepted_seq;
  for (const MovedOperation& moved : mark.moved) moved_[moved.operation] = moved.key;
  if (!flows_.Decode(mark.flows, clock_.Now())) return std::unexpected(mark.applied_seq);
  index_.set_stored_seq(mark.applied_seq);
  head_ = {mark.applied_seq, 0, mark.applied_hash};
  chain_ = head_.hash;
  batch_.first_seq = head_.seq + 1;
  if (reader_->Read(mark.applied_seq, row_)) {
    if (const auto row = ParseRow(row_)) head_.epoch = row->head.epoch;
  }
  for (const OpenReference& open : mark.open) {
    EventFront front;
    // Retention moved it behind the mark, where it will be found.
    if (open.last_event < first_seq_) continue;
    if (!reader_->Read(open.last_event, row_)) return std::unexpected(open.last_event);
    const auto row = ParseRow(row_);
    if (!row || !DecodeEventFront(*row, front)) return std::unexpected(open.last_event);
    if (IsClaim(front.phase)) {
      ReplayClaim(*row, front);
      continue;
    }
    const bool is_moved = front.cause == Cause::kCarried;
    NoteWrite(front, open.last_event, nullptr);
    TrackOpen(open.operation,
              {front.key, open.last_event, row->head.wall_ms, front.phase, nullptr, true, 0,
               is_moved ? front.stands.dispatched : open.last_event},
              front.verdict != ObserveVerdict::kNone);
  }
  return {};
}

std::expected<void, std::string_view> LedgerEngine::Replay(std::uint64_t seq,
                                                           std::string_view bytes) {
  const auto row = ParseRow(bytes);
  if (!row) return std::unexpected(row.error());
  if (row->head.seq != seq || seq != head_.seq + 1) return std::unexpected("row number is wrong");
  if (row->head.prev_hash != head_.hash) return std::unexpected("hash chain is broken");
  if (!ReplayPayload(*row)) return std::unexpected("payload cannot be read");
  head_ = {seq, row->head.epoch, RowHash(bytes)};
  chain_ = head_.hash;
  batch_.first_seq = seq + 1;
  return {};
}

bool LedgerEngine::ReplayPayload(const RowView& row) {
  if (row.head.kind == RowKind::kEpoch) return true;
  if (row.head.kind == RowKind::kPolicy) {
    PolicyChange change;
    policy_seq_ = row.head.seq;
    return DecodePolicy(row, change);
  }
  if (row.head.kind == RowKind::kOrder) {
    OperatorOrder order;
    if (!DecodeOrder(row, order)) return false;
    if (order.what == kAcceptOrder) accepted_seq_ = row.head.seq;
    return true;
  }
  if (row.head.kind == RowKind::kRetired) {
    RetiredRow retired;
    if (!DecodeRetired(row, retired)) return false;
    operations_ = std::max(operations_, retired.operations);
    tombstones_ = retired.tombstones_total;
    ApplyRetired(retired, row.head.seq);
    return true;
  }
  if (row.head.kind == RowKind::kAlias) {
    Alias alias;
    return DecodeAlias(row, alias) && index_.PutAlias(alias, row.head.seq, row.head.wall_ms);
  }
  if (row.head.kind == RowKind::kAnswered) {
    std::vector<std::uint64_t> operations;
    if (!DecodeAnswered(row, operations)) return false;
    for (const std::uint64_t mark : operations) {
      auto found = FindByOperation(mark & ~kUnreadMark);
      if (!found) return false;
      if (!*found) continue;  // an alias of before took its key away, or it is kept no longer
      (*found)->entry.is_answered = (mark & kUnreadMark) == 0;
      index_.Put((*found)->key, (*found)->entry);
    }
    return true;
  }
  if (row.head.kind == RowKind::kFlow) {
    FlowState flow;
    if (!DecodeFlow(row, flow)) return false;
    flows_.Apply(std::move(flow), clock_.Now());
    return true;
  }
  EventFront front;
  if (!DecodeEventFront(row, front)) return false;
  if (const auto news = NewsOf(row)) {
    // What was idle for long when it was written is over, as it was then.
    const Millis age(std::max<std::int64_t>(0, WallMs() - news->wall_ms));
    const MonoTime at = clock_.Now() - std::min(age, 2 * Millis(limits::kFlowIdle));
    flows_.CloseIdle(at - limits::kFlowIdle, limits::kFlowsMax, limits::kFlowsClosedAtOnce);
    flows_.Apply(*news, at);
  }
  ReplayClaim(row, front);
  const auto previous = index_.Find(front.key);
  if (!previous) return false;
  ApplyFront(front, row.head.seq, row.head.wall_ms, *previous ? &**previous : nullptr);
  if (front.phase == Phase::kDenied) {
    const auto [tool, caller] = MadeBy(row);
    NoteNo(caller, tool, front.args_hash, front.operation);
  }
  return true;
}

void LedgerEngine::StartEpoch() {
  process_first_seq_ = head_.seq + 1;
  if (ReadRow(head_.seq, row_)) {
    const auto last = ParseRow(row_);
    went_back_before_start_ = last && last->head.wall_ms > WallMs();
  }
  ++head_.epoch;
  AppendEpochRow(batch_.bytes, NextHead(RowKind::kEpoch));
  CloseRow();
}

}  // namespace recourse
