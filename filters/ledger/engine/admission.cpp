#include "filters/ledger/engine/admission.h"

#include <string_view>

namespace recourse {
namespace {

constexpr std::array<std::string_view, kQuotaKindCount> kQuotaDetails = {
    "the caller has as many writes in flight as its quota writes_in_flight allows",
    "the caller has begun as many operations within the hour as its quota operations_per_hour "
    "allows",
    "the ledger holds as much of the caller as its quota stored_bytes allows",
    "as many calls of the caller wait for a human as its quota pending_approvals allows"};

Error Refused(ErrorCode code, std::string_view why) { return Error(code, why, Delivery::kNotSent); }

}  // namespace

std::optional<Error> Admission::Refusal(const AdmissionOf& asked) {
  if (state_.open.size() >= limits::kOpenOperationsMax) {
    return Refused(ErrorCode::kOverloaded, "too many open operations");
  }
  if (state_.index.keys().is_full()) {
    return Refused(ErrorCode::kLedgerFull, "the key index cannot be written; is the disk full?");
  }
  // Observe mode refuses nothing. An undo waits too: it may have been sent after the backup.
  if (!asked.is_observed && state_.restored.waits()) {
    return Refused(ErrorCode::kLedgerRestored,
                   "the event log was restored from a backup, and no operator has accepted that "
                   "what was done after it is not remembered");
  }
  // Its rows were promised to it when its step began.
  if (asked.is_undo) return std::nullopt;
  QuotaUsage::Use& use = state_.callers.Of(asked.caller);
  const Quota granted = asked.is_observed ? Quota() : asked.quota;
  if (const auto quota =
          state_.callers.Exceeded(granted, use, asked.is_new, state_.clock.LivedMs())) {
    return Exceeds(*quota);
  }
  if (asked.asks) {
    if (const auto refusal = RefusalToAsk(asked)) return refusal;
  }
  state_.is_full =
      !state_.HasSpace(limits::kOpenReserveBytes + limits::kSmallRowBytes + asked.bytes_besides);
  if (state_.is_full) {
    return Refused(ErrorCode::kLedgerFull, "the event log has no room for another operation");
  }
  return std::nullopt;
}

std::optional<Error> Admission::RefusalToAsk(const AdmissionOf& asked) {
  if (!asked.can_be_asked) {
    return Refused(ErrorCode::kRequestTooLarge,
                   "the call needs a human's approval and is too large to be kept for that");
  }
  const std::uint64_t granted =
      asked.quota.pending_approvals.value_or(limits::kPendingApprovalsPerCaller);
  if (state_.claims.CountOf(asked.caller) >= granted) {
    return Exceeds(QuotaKind::kPendingApprovals);
  }
  if (state_.claims.size() >= limits::kPendingApprovalsMax) {
    return Refused(ErrorCode::kOverloaded, "too many calls wait for a human");
  }
  return std::nullopt;
}

Error Admission::Exceeds(QuotaKind quota) {
  const auto index = static_cast<std::size_t>(quota);
  ++quota_refusals_[index];
  return Refused(ErrorCode::kQuotaExceeded, kQuotaDetails[index]);
}

void Admission::Count(const Event& event, bool is_new) {
  QuotaUsage::Use& use = state_.callers.Of(event.caller);
  if (is_new) state_.callers.CountNew(use, state_.clock.LivedMs());
  OpenOperation* const open = state_.open.Find(event.operation);
  if (open == nullptr) return;
  ++use.running;
  open->caller = &use;
}

}  // namespace recourse
