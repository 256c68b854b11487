#include "filters/ledger/index/key_index.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "filters/ledger/rows/row_codec.h"
#include "proxy/base/bytes.h"
#include "proxy/base/check.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// One operation writes two rows; the double leaves room for retries and marks.
constexpr std::uint64_t kRowsPerEntry = 4;
constexpr std::size_t kFullFactor = 4;
// Intents and marks of one write.
constexpr std::size_t kMarksPerEntry = 4;

}  // namespace

KeyEntry EntryOf(const Tombstone& tombstone, std::uint64_t seq, std::uint32_t newest_generation) {
  KeyEntry entry;
  entry.operation = tombstone.operation;
  entry.last_event = seq;
  entry.last_wall_ms = tombstone.last_wall_ms;
  entry.generation = tombstone.generation;
  entry.newest_generation = std::max(newest_generation, tombstone.newest_generation);
  entry.phase = tombstone.phase;
  entry.is_tombstone = true;
  return entry;
}

KeyEntry PlaceholderOf(std::uint64_t seq, std::int64_t wall_ms, std::uint32_t newest_generation) {
  KeyEntry entry;
  entry.last_event = seq;
  entry.last_wall_ms = wall_ms;
  entry.newest_generation = newest_generation;
  entry.phase = Phase::kTombstone;
  entry.is_tombstone = true;
  return entry;
}

KeyIndex::KeyIndex(EventLog& log, ColdIndex* cold, std::size_t hot_entries_max)
    : cold_(cold), hot_entries_max_(hot_entries_max), reader_(log.NewReader()) {}

std::unexpected<Error> KeyIndex::Damaged() {
  is_damaged_ = true;
  return std::unexpected(Error(ErrorCode::kLedgerUnavailable,
                               "the key index does not match the log", Delivery::kUncertain));
}

Result<std::optional<KeyEntry>> KeyIndex::Find(const Digest& key) {
  auto entry = FindAny(key);
  if (entry && *entry && (*entry)->last_event < first_seq_) return std::nullopt;
  return entry;
}

bool KeyIndex::PutAlias(const Alias& alias, std::uint64_t row, std::int64_t wall_ms) {
  Put(KeyOfGeneration(alias.key, alias.generation), {.operation = alias.operation,
                                                     .last_event = row,
                                                     .last_wall_ms = wall_ms,
                                                     .generation = alias.generation,
                                                     .is_alias = true});
  return alias.generation == 0 || PutGeneration(alias.key, alias.generation, row, wall_ms);
}

bool KeyIndex::PutGeneration(const Digest& base_key, std::uint32_t generation, std::uint64_t row,
                             std::int64_t wall_ms) {
  const auto base = Find(base_key);
  if (!base) return false;
  if (!*base) {
    Put(base_key, PlaceholderOf(row, wall_ms, generation));
  } else if ((*base)->newest_generation < generation) {
    KeyEntry entry = **base;
    entry.newest_generation = generation;
    Put(base_key, entry);
  }
  return true;
}

Result<std::optional<ColdEntry>> KeyIndex::Locate(const Digest& key) {
  const auto in = [&](const IndexSnapshot& part) -> std::optional<ColdEntry> {
    const auto hit = part.keys.find(key);
    if (hit == part.keys.end()) return std::nullopt;
    return ColdEntry{hit->second.last_event, hit->second.newest_generation,
                     hit->second.is_answered};
  };
  std::optional<ColdEntry> entry = in(hot_);
  if (!entry && frozen_) entry = in(*frozen_);
  if (!entry && cold_ != nullptr) {
    if (is_damaged_) return Damaged();
    entry = cold_->FindKey(key);
    if (!entry && cold_->is_damaged()) return Damaged();
  }
  if (entry && entry->last_event < first_seq_) return std::nullopt;
  return entry;
}

Result<std::optional<KeyEntry>> KeyIndex::FindAny(const Digest& key) {
  if (const auto hit = hot_.keys.find(key); hit != hot_.keys.end()) return hit->second;
  if (frozen_) {
    if (const auto hit = frozen_->keys.find(key); hit != frozen_->keys.end()) return hit->second;
  }
  if (cold_ == nullptr) return std::nullopt;
  if (is_damaged_) return Damaged();
  const std::optional<ColdEntry> cold = cold_->FindKey(key);
  if (cold) return Hydrate(key, *cold);
  if (cold_->is_damaged()) return Damaged();
  return std::nullopt;
}

Result<std::optional<std::uint64_t>> KeyIndex::FindIntent(const Digest& intent) {
  if (const auto hit = hot_.intents.find(intent); hit != hot_.intents.end()) return hit->second;
  if (frozen_) {
    if (const auto hit = frozen_->intents.find(intent); hit != frozen_->intents.end()) {
      return hit->second;
    }
  }
  if (cold_ == nullptr) return std::nullopt;
  if (is_damaged_) return Damaged();
  const std::optional<std::uint64_t> cold = cold_->FindIntent(intent);
  if (!cold && cold_->is_damaged()) return Damaged();
  return cold;
}

Result<std::optional<std::uint64_t>> KeyIndex::FindSince(const Digest& mark, std::uint64_t since) {
  std::optional<std::uint64_t> row;
  if (since >= stored_seq_) {
    const auto hit = hot_.intents.find(mark);
    if (hit != hot_.intents.end()) row = hit->second;
  } else {
    const auto found = FindIntent(mark);
    if (!found) return found;
    row = *found;
  }
  return row && *row > since ? row : std::nullopt;
}

Result<std::optional<KeyEntry>> KeyIndex::Hydrate(const Digest& key, const ColdEntry& cold) {
  if (cold.last_event < first_seq_) return std::nullopt;
  if (!reader_->Read(cold.last_event, row_)) return Damaged();
  const auto row = ParseRow(row_);
  if (!row) return Damaged();
  KeyEntry entry;
  entry.last_event = cold.last_event;
  entry.last_wall_ms = row->head.wall_ms;
  entry.is_answered = cold.is_answered;
  Alias alias;
  if (DecodeAlias(*row, alias)) {
    if (KeyOfGeneration(alias.key, alias.generation) != key) {
      if (alias.generation == 0 || alias.key != key) return Damaged();
      return PlaceholderOf(cold.last_event, row->head.wall_ms,
                           std::max(cold.newest_generation, alias.generation));
    }
    entry.operation = alias.operation;
    entry.generation = alias.generation;
    entry.newest_generation = cold.newest_generation;
    entry.is_alias = true;
    return entry;
  }
  if (row->head.kind == RowKind::kRetired) {
    const auto tombstone = FindTombstone(*row, key);
    if (!tombstone) return Damaged();
    return EntryOf(*tombstone, cold.last_event, cold.newest_generation);
  }
  EventFront front;
  if (!DecodeEventFront(*row, front)) return Damaged();
  if (front.key != key) {
    if (front.generation == 0 || front.base_key != key) return Damaged();
    return PlaceholderOf(cold.last_event, row->head.wall_ms,
                         std::max(cold.newest_generation, front.generation));
  }
  entry.operation = front.operation;
  entry.args_hash = front.args_hash;
  entry.principal = front.principal;
  entry.generation = front.generation;
  entry.newest_generation = cold.newest_generation;
  entry.attempt = front.attempt;
  entry.phase = front.phase;
  entry.cause = front.cause;
  return entry;
}

void KeyIndex::ForgetIntent(const Digest& intent, std::uint64_t operation) {
  const auto hit = hot_.intents.find(intent);
  if (hit != hot_.intents.end() && hit->second == operation) hot_.intents.erase(hit);
}

bool KeyIndex::WantsFreeze(std::uint64_t applied_seq) const {
  if (cold_ == nullptr || frozen_ || is_damaged_) return false;
  return hot_.keys.size() >= hot_entries_max_ ||
         hot_.intents.size() >= kMarksPerEntry * hot_entries_max_ ||
         applied_seq - stored_seq_ >= kRowsPerEntry * hot_entries_max_;
}

bool KeyIndex::is_crowded() const {
  return cold_ != nullptr && hot_.keys.size() >= kFullFactor * hot_entries_max_;
}

bool KeyIndex::is_full() const {
  return cold_ != nullptr &&
         hot_.keys.size() >= kFullFactor * hot_entries_max_ + limits::kCommitBatchMax;
}

std::shared_ptr<const IndexSnapshot> KeyIndex::Freeze(IndexMark mark) {
  RC_CHECK(!frozen_);
  stored_seq_ = mark.applied_seq;
  auto snapshot = std::make_shared<IndexSnapshot>(std::exchange(hot_, IndexSnapshot()));
  snapshot->mark = std::move(mark);
  hot_.keys.reserve(hot_entries_max_);
  hot_.intents.reserve(hot_entries_max_);
  frozen_ = snapshot;
  return frozen_;
}

}  // namespace recourse
