// Approvals in LedgerEngine: what waits for a human, and for how long yet.
#include <algorithm>
#include <utility>

#include "filters/ledger/engine/ledger_engine.h"
#include "filters/ledger/rules/decide_approval.h"

namespace recourse {
namespace {

Error NotSent(ErrorCode code, std::string_view why) { return Error(code, why, Delivery::kNotSent); }

}  // namespace

// By either clock, so that neither a clock set back nor a restart gives it more time.
Millis LedgerEngine::TimeLeft(const ApprovalFacts& facts) const {
  const MonoTime now = clock_.Now();
  // Asked by an earlier process, at a time that is still to come: nobody knows how long ago.
  if (facts.asked_row < process_first_seq_ && WallMs() < facts.asked_ms) return Millis(0);
  const std::int64_t age_ms = jumps_.AgeMs(facts.asked_row, facts.asked_ms, now, WallMs());
  const std::int64_t lived_ms = ages_.LivedMs(now) - facts.asked_lived_ms;
  return Millis(facts.expires_ms - std::max({age_ms, lived_ms, std::int64_t{0}}));
}

std::optional<Error> LedgerEngine::ApprovalRefusal(const AdmissionOf& asked) {
  if (!asked.can_be_asked) {
    return NotSent(ErrorCode::kRequestTooLarge,
                   "the call needs a human's approval and is too large to be kept for that");
  }
  const std::uint64_t granted =
      asked.quota.pending_approvals.value_or(limits::kPendingApprovalsPerCaller);
  const auto waiting = std::count_if(claims_.begin(), claims_.end(), [&](const auto& claim) {
    return claim.second.caller == asked.caller;
  });
  if (static_cast<std::uint64_t>(waiting) >= granted) {
    const auto index = static_cast<std::size_t>(QuotaKind::kPendingApprovals);
    ++quota_refusals_[index];
    return NotSent(ErrorCode::kQuotaExceeded,
                   "as many calls of the caller wait for a human as its quota pending_approvals "
                   "allows");
  }
  if (claims_.size() >= limits::kPendingApprovalsMax) {
    return NotSent(ErrorCode::kOverloaded, "too many calls wait for a human");
  }
  return std::nullopt;
}

Result<Event> LedgerEngine::LoadClaim(const KeyEntry& entry) {
  if (!ReadRow(entry.last_event, row_)) return std::unexpected(Unreadable(entry.last_event));
  const auto row = ParseRow(row_);
  Event event;
  if (!row || !DecodeEvent(*row, AnswerPart::kLoad, opener_, event)) {
    return std::unexpected(Unreadable(entry.last_event));
  }
  if (event.is_locked) {
    return std::unexpected(
        NotSent(ErrorCode::kLedgerUnavailable,
                "the operation is sealed with a key that is not among the ledger's keys"));
  }
  return event;
}

Result<ApprovalOutcome> LedgerEngine::Decide(const ApprovalOrder& order) {
  auto planned = Judge([&](Known& known) { return recourse::Decide(order, known); });
  if (!planned) return std::unexpected(planned.error());
  if (auto done = CarryOut(planned->plan); !done) return std::unexpected(done.error());
  if (!planned->plan.writes.empty()) {
    planned->reply.event = std::move(std::get<EventWrite>(planned->plan.writes.front()).event);
  }
  return std::move(planned->reply);
}

Result<std::vector<PendingApproval>> LedgerEngine::Claims(std::uint64_t after, std::size_t limit) {
  std::vector<PendingApproval> claims;
  for (auto at = claims_.upper_bound(after); at != claims_.end() && claims.size() < limit; ++at) {
    if (!IsCommitted(at->second.last_event)) continue;
    auto event = Load(at->second.last_event);
    if (!event) return std::unexpected(event.error());
    const Millis left = event->approval ? TimeLeft(*event->approval) : Millis::max();
    claims.push_back({std::move(*event), left});
  }
  return claims;
}

void LedgerEngine::TrackClaim(std::uint64_t operation, Phase phase, OpenClaim claim) {
  if (const auto known = claims_.find(operation); known != claims_.end()) {
    claim_bytes_ -= known->second.bytes;
    claims_.erase(known);
  }
  if (!IsClaim(phase)) return;
  claim_bytes_ += claim.bytes;
  claims_.emplace(operation, std::move(claim));
}

void LedgerEngine::ReplayClaim(const RowView& row, const EventFront& front) {
  OpenClaim claim{.last_event = row.head.seq, .bytes = row.bytes.size(), .flow = {}, .caller = {}};
  if (IsClaim(front.phase)) {
    const auto news = NewsOf(row);
    claim.caller = news ? news->caller : std::string_view();
    claim.flow = FlowKeyOf(claim.caller, news ? news->flow : std::string_view());
  }
  TrackClaim(front.operation, front.phase, std::move(claim));
}

}  // namespace recourse
