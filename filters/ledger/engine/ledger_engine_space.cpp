// Admission: what may still begin, so that everything that has begun can end.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "filters/ledger/engine/ledger_engine.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr std::array<std::string_view, kQuotaKindCount> kQuotaDetails = {
    "the caller has as many writes in flight as its quota writes_in_flight allows",
    "the caller has begun as many operations within the hour as its quota operations_per_hour "
    "allows",
    "the ledger holds as much of the caller as its quota stored_bytes allows",
    "as many calls of the caller wait for a human as its quota pending_approvals allows"};

constexpr Millis kSpaceLookEvery{100};
constexpr int kWarnPercents[] = {70, 85};
constexpr int kCalmPercent = 5;  // so much less, and the next crossing is told again

}  // namespace

Result<std::optional<Error>> LedgerEngine::LookUp(const AdmissionOf& asked) {
  if (open_.size() >= limits::kOpenOperationsMax) {
    return Error(ErrorCode::kOverloaded, "too many open operations", Delivery::kNotSent);
  }
  if (index_.is_full()) {
    return Error(ErrorCode::kLedgerFull, "the key index cannot be written; is the disk full?",
                 Delivery::kNotSent);
  }
  // Observe mode refuses nothing. An undo waits too: it may have been sent after the backup.
  if (!asked.is_observed && is_restored()) {
    return Error(ErrorCode::kLedgerRestored,
                 "the event log was restored from a backup, and no operator has accepted that what "
                 "was done after it is not remembered",
                 Delivery::kNotSent);
  }
  // Its rows were promised to it when its step began.
  if (asked.is_undo) return std::nullopt;
  QuotaUsage::Use& use = callers_.Of(asked.caller);
  const std::int64_t lived_ms = ages_.LivedMs(clock_.Now());
  const Quota granted = asked.is_observed ? Quota() : asked.quota;
  if (const auto quota = callers_.Exceeded(granted, use, asked.is_new, lived_ms)) {
    const auto index = static_cast<std::size_t>(*quota);
    ++quota_refusals_[index];
    return Error(ErrorCode::kQuotaExceeded, kQuotaDetails[index], Delivery::kNotSent);
  }
  if (asked.asks) {
    if (const auto refusal = ApprovalRefusal(asked)) return refusal;
  }
  is_full_ = !HasSpace(limits::kOpenReserveBytes + limits::kSmallRowBytes + asked.bytes_besides);
  if (is_full_) {
    return Error(ErrorCode::kLedgerFull, "the event log has no room for another operation",
                 Delivery::kNotSent);
  }
  return std::nullopt;
}

std::expected<void, std::string> LedgerEngine::AcceptRestoredBackup() {
  if (!is_restored()) return {};
  if (auto accepted = parts_.accept_restored(); !accepted) return accepted;
  is_restored_.store(false, std::memory_order_release);
  Log(LogLevel::kWarn, "the restored ledger was accepted; new writes are let through");
  return {};
}

void LedgerEngine::CountAttempt(const Event& event, bool is_new) {
  QuotaUsage::Use& use = callers_.Of(event.caller);
  if (is_new) callers_.CountNew(use, ages_.LivedMs(clock_.Now()));
  const auto open = open_.find(event.operation);
  if (open == open_.end()) return;
  ++use.running;
  open->second.caller = &use;
}

std::uint64_t LedgerEngine::ReserveBytes() const {
  // What waits may be decided, sent, and stay unknown: each row repeats its request.
  return open_.size() * std::uint64_t{limits::kOpenReserveBytes} +
         claims_.size() * std::uint64_t{limits::kOpenReserveBytes} + 3 * claim_bytes_ +
         flows_.undoable() * std::uint64_t{limits::kUndoReserveBytes};
}

// A row takes up to twice its size while pages are split, and whole pages when it is large.
bool LedgerEngine::HasSpace(std::size_t bytes) {
  const std::uint64_t wanted =
      2 * (batch_.bytes.size() + bytes) + ReserveBytes() + limits::kSpaceSlackBytes;
  if (free_bytes_ >= wanted) return true;
  // The disk is asked again for more than before, after a commit, and now and then.
  if (wanted > space_wanted_ || space_is_stale_ ||
      clock_.Now() - space_looked_at_ >= kSpaceLookEvery) {
    space_wanted_ = wanted;
    LookAtSpace();
  }
  return free_bytes_ >= wanted;
}

// Between two looks it is enough to know what was taken at most.
void LedgerEngine::TakeSpace(std::size_t bytes) {
  free_bytes_ -= std::min<std::uint64_t>(free_bytes_, 2 * bytes + kPagesOfCommit);
  space_wanted_ = 0;
  space_is_stale_ = true;
  if (clock_.Now() - space_looked_at_ >= kSpaceLookEvery) LookAtSpace();
}

void LedgerEngine::LookAtSpace() {
  space_looked_at_ = clock_.Now();
  space_is_stale_ = false;
  const std::uint64_t reserved = ReserveBytes() + 2 * limits::kSpaceSlackBytes;
  const LogSpace space = parts_.log->Space(std::max(space_wanted_, reserved));
  free_bytes_ = space.free_bytes;
  WarnAboutSpace(space.used_percent);
}

// Once per crossing.
void LedgerEngine::WarnAboutSpace(int percent) {
  if (percent < space_warned_ - kCalmPercent) space_warned_ = 0;
  for (const int limit : kWarnPercents) {
    if (percent < limit || space_warned_ >= limit) continue;
    space_warned_ = limit;
    Log(LogLevel::kWarn, "the ledger fills up; when it is full new writes are refused",
        {{"used_percent", std::to_string(percent)},
         {"do", "raise --ledger-max, give the disk more room, or shorten ledger.retention"}});
  }
}

// The last resort when free pages are too scattered for a large row: outcomes stay, their answers
// are not kept, nor the requests of those that are unknown. False: there was none.
bool LedgerEngine::DropAnswersOfBatch() {
  RowBatch slim;
  slim.first_seq = batch_.first_seq;
  slim.has_dispatching = batch_.has_dispatching;
  slim.has_outcome = batch_.has_outcome;
  slim.base = batch_.base;
  slim.ages = batch_.ages;
  Digest link = head_.hash;
  bool dropped = false;
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    const auto row = ParseRow(batch_.row(i));
    Event event;
    const bool is_read = row && DecodeEvent(*row, AnswerPart::kOnlyRequest, opener_, event);
    const bool has_request = event.phase == Phase::kUncertain && event.request;
    if (is_read && (event.answer_kept || has_request)) {
      dropped = true;
      event.answer_kept = false;
      if (has_request) {
        event.request.reset();
        event.request_left_out = true;
      }
      AppendEventRow(slim.bytes, event, link, sealer_ ? &*sealer_ : nullptr);
    } else {
      AppendRelinkedRow(slim.bytes, batch_.row(i), link);
    }
    slim.ends.push_back(slim.bytes.size());
    link = RowHash(slim.row(i));
  }
  if (!dropped) return false;
  batch_ = std::move(slim);
  chain_ = link;
  return true;
}

}  // namespace recourse
