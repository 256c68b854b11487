// The reading half of LedgerEngine: look-ups, and taking over what the log already holds.
#include <algorithm>
#include <utility>

#include "filters/ledger/ledger_engine.h"

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
  if (!IsCommitted(seq) || !reader_->Read(seq, row_)) return std::unexpected(Unreadable());
  const auto row = ParseRow(row_);
  if (!row || row->head.seq != seq || !DecodeEvent(*row, AnswerPart::kLoad, event)) {
    return std::unexpected(Unreadable());
  }
  return event;
}

Result<std::optional<Digest>> LedgerEngine::KeyOf(std::uint64_t operation) {
  const KeyOfOperation& recent = recent_keys_[operation % recent_keys_.size()];
  if (operation != 0 && recent.operation == operation) return recent.key;
  if (const auto open = open_.find(operation); open != open_.end()) return open->second.key;
  if (!ReadRow(operation, row_)) return std::nullopt;
  const auto row = ParseRow(row_);
  if (!row) return std::unexpected(Unreadable());
  EventFront front;
  if (!DecodeEventFront(*row, front) || front.operation != operation) return std::nullopt;
  return front.key;
}

Result<std::optional<LedgerEngine::Found>> LedgerEngine::FindByOperation(std::uint64_t operation) {
  const auto key = KeyOf(operation);
  if (!key) return std::unexpected(key.error());
  if (!*key) return std::nullopt;
  const auto entry = index_.Find(**key);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry || (*entry)->operation != operation) return std::nullopt;
  return Found{**key, **entry};
}

Result<std::optional<LedgerEngine::Found>> LedgerEngine::FindByKey(const Digest& key) {
  auto entry = index_.Find(key);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry) return std::nullopt;
  if ((*entry)->is_alias) return FindByOperation((*entry)->operation);
  if ((*entry)->newest_generation == 0) return Found{key, **entry};
  const Digest newest = KeyOfGeneration(key, (*entry)->newest_generation);
  entry = index_.Find(newest);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry) return std::unexpected(Unreadable());
  return Found{newest, **entry};
}

Result<std::optional<LedgerEngine::Found>> LedgerEngine::FindByIntent(const NewOperation& call) {
  if (call.event.intent == Digest{}) return std::nullopt;
  const auto operation = index_.FindIntent(call.event.intent);
  if (!operation) return std::unexpected(operation.error());
  if (!*operation) return std::nullopt;
  return FindByOperation(**operation);
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
  stats.rows = head_.seq;
  stats.operations = operations_;
  stats.running = running_;
  stats.uncertain = open_.size() - running_;
  stats.commits = commits_;
  stats.epoch = head_.epoch;
  stats.oldest_pending_ms = OldestPendingMs();
  stats.latched = is_latched_;
  return stats;
}

std::expected<void, std::uint64_t> LedgerEngine::Restore(const IndexMark& mark) {
  operations_ = mark.operations;
  index_.set_stored_seq(mark.applied_seq);
  head_ = {mark.applied_seq, 0, mark.applied_hash};
  chain_ = head_.hash;
  batch_.first_seq = head_.seq + 1;
  if (reader_->Read(mark.applied_seq, row_)) {
    if (const auto row = ParseRow(row_)) head_.epoch = row->head.epoch;
  }
  for (const OpenReference& open : mark.open) {
    EventFront front;
    if (!reader_->Read(open.last_event, row_)) return std::unexpected(open.last_event);
    const auto row = ParseRow(row_);
    if (!row || !DecodeEventFront(*row, front)) return std::unexpected(open.last_event);
    TrackOpen(open.operation, {front.key, open.last_event, row->head.wall_ms, front.phase});
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
  if (row.head.kind == RowKind::kAlias) {
    KeyEntry alias{.last_event = row.head.seq, .is_alias = true};
    Digest key{};
    if (!DecodeAlias(row, key, alias.operation)) return false;
    index_.Put(key, alias);
    return true;
  }
  if (row.head.kind == RowKind::kAnswered) {
    std::vector<std::uint64_t> operations;
    if (!DecodeAnswered(row, operations)) return false;
    for (const std::uint64_t operation : operations) {
      auto found = FindByOperation(operation);
      if (!found) return false;
      if (!*found) continue;  // its key became an alias of another operation meanwhile
      (*found)->entry.is_answered = true;
      index_.Put((*found)->key, (*found)->entry);
    }
    return true;
  }
  EventFront front;
  if (!DecodeEventFront(row, front)) return false;
  const auto previous = index_.Find(front.key);
  if (!previous) return false;
  ApplyFront(front, row.head.seq, row.head.wall_ms, *previous ? &**previous : nullptr);
  return true;
}

}  // namespace recourse
