#include "filters/ledger/key_index.h"

#include <utility>

#include "filters/ledger/record_codec.h"
#include "proxy/base/bytes.h"
#include "proxy/base/check.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// One operation writes two rows; the double leaves room for retries and marks.
constexpr std::uint64_t kRowsPerEntry = 4;
constexpr std::size_t kFullFactor = 4;

}  // namespace

Digest KeyOfGeneration(const Digest& base, std::uint32_t generation) {
  if (generation == 0) return base;
  std::string bytes(AsView(base));
  ByteWriter(bytes).Int(std::uint64_t{generation});
  return Sha256(bytes);
}

KeyIndex::KeyIndex(EventLog& log, ColdIndex* cold, std::size_t hot_entries_max)
    : cold_(cold), hot_entries_max_(hot_entries_max), reader_(log.NewReader()) {
  if (cold_ == nullptr) return;
  hot_.keys.reserve(hot_entries_max_);
  hot_.intents.reserve(hot_entries_max_);
}

std::unexpected<Error> KeyIndex::Damaged() {
  is_damaged_ = true;
  return std::unexpected(Error(ErrorCode::kLedgerUnavailable,
                               "the key index does not match the log", Delivery::kUncertain));
}

Result<std::optional<KeyEntry>> KeyIndex::Find(const Digest& key) {
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

Result<std::optional<KeyEntry>> KeyIndex::Hydrate(const Digest& key, const ColdEntry& cold) {
  if (!reader_->Read(cold.last_event, row_)) return Damaged();
  const auto row = ParseRow(row_);
  if (!row) return Damaged();
  KeyEntry entry;
  entry.last_event = cold.last_event;
  entry.last_wall_ms = row->head.wall_ms;
  entry.is_answered = cold.is_answered;
  Digest alias{};
  if (DecodeAlias(*row, alias, entry.operation)) {
    entry.is_alias = true;
    if (alias != key) return Damaged();
    return entry;
  }
  EventFront front;
  if (!DecodeEventFront(*row, front) || front.key != key) return Damaged();
  entry.operation = front.operation;
  entry.args_hash = front.args_hash;
  entry.generation = front.generation;
  entry.newest_generation = cold.newest_generation;
  entry.attempt = front.attempt;
  entry.phase = front.phase;
  return entry;
}

bool KeyIndex::WantsFreeze(std::uint64_t applied_seq) const {
  if (cold_ == nullptr || frozen_ || is_damaged_) return false;
  return hot_.keys.size() >= hot_entries_max_ ||
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
