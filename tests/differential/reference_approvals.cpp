// Approvals in ReferenceEngine: what waits for a human, what humans decide, and the one dispatch
// that an approval is good for.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/differential/reference.h"

namespace recourse {
namespace {

Error NotSent(ErrorCode code, std::string_view why) { return Error(code, why, Delivery::kNotSent); }

// With the same arguments it is found again.
Digest KeyOfSuspect(const Digest& key, const Digest& args_hash) {
  std::string text;
  AppendPart(text, "recourse-suspect-v1");
  AppendPart(text, AsView(key));
  AppendPart(text, AsView(args_hash));
  return Sha256(text);
}

std::string WhySuspected(const KeyEntry& found, bool is_same_key) {
  return fmt::format(
      "suspected duplicate: operation {}, which is {}, {}; approve to run this one as well",
      found.operation, NameOf(found.phase),
      is_same_key ? "has the same key and other arguments"
                  : "is the same call under another trace");
}

// From now on this is what waits, and what was said of the other one counts no more.
void EditBody(std::string body, Event& event) {
  ApprovalFacts& facts = *event.approval;
  for (ApprovalDecision& earlier : facts.decisions) earlier.is_void = true;
  if (!facts.original_body) facts.original_body = std::move(event.request->body);
  event.request->body = std::move(body);
  facts.digest = RequestDigest(event.backend, *event.request);
}

// What came from the agent is kept no longer than something may be sent.
void DropRequestAndOriginal(Event& event) {
  event.request.reset();
  event.request_left_out = false;
  event.approval->original_body.reset();
}

}  // namespace

void ReferenceEngine::Suspect(const Found& found, bool is_same_key, NewOperation& call) const {
  SuspicionAsk& suspicion = *call.suspicion;
  if (!call.approval) call.approval = std::move(suspicion.ask);
  ApprovalAsk& ask = *call.approval;
  if (!ask.why.empty()) ask.why += "; ";
  ask.why += WhySuspected(found.entry, is_same_key);
  ask.repeats = found.entry.operation;
  call.event.request = std::move(suspicion.request);
  call.may_resend = false;  // a second use of its approval
  // Its own key stays that of the other one.
  if (is_same_key) call.event.key = KeyOfSuspect(found.key, call.event.args_hash);
}

// The new operation in `event` is not sent but waits.
void ReferenceEngine::Ask(const NewOperation& call, Event& event) {
  const ApprovalAsk& ask = *call.approval;
  ApprovalFacts& facts = event.approval.emplace();
  facts.needed = static_cast<std::uint16_t>(ask.needed);
  facts.by = ask.by;
  facts.expires_ms = ask.expires.count();
  facts.asked_ms = WallMs();
  facts.asked_row = batch_.first_seq + batch_.size();
  facts.asked_lived_ms = ages_.LivedMs(clock_.Now());
  facts.policy = ask.policy;
  facts.digest = RequestDigest(event.backend, *event.request);
  facts.why = ask.why;
  facts.repeats = ask.repeats;
  event.phase = Phase::kClaimed;
  event.cause = Cause::kAsked;
  --event.attempt;  // counted when it is sent
}

std::optional<ApprovalFacts> ReferenceEngine::StandingApproval(const NewOperation& call,
                                                               const Found& found) {
  const KeyEntry& entry = found.entry;
  if (entry.phase != Phase::kNotSent || entry.cause != Cause::kAsksInput) return std::nullopt;
  if (entry.args_hash != call.event.args_hash || call.approval->repeats != 0) return std::nullopt;
  if (!call.approval->may_go_on) return std::nullopt;
  const auto last = LoadClaim(entry);
  if (!last || !last->approval) return std::nullopt;
  const ApprovalFacts& facts = *last->approval;
  // What a human wrote into the arguments is kept no more: these are the agent's own.
  const bool is_edited = std::ranges::any_of(facts.decisions, [](const ApprovalDecision& one) {
    return one.kind == ApprovalDecision::Kind::kEdited && !one.is_late;
  });
  if (is_edited || facts.policy != call.approval->policy || TimeLeft(facts) <= Millis(0)) {
    return std::nullopt;
  }
  return facts;
}

void ReferenceEngine::AskOrContinue(const NewOperation& call, const Found* found, Event& event) {
  auto standing =
      found == nullptr ? std::optional<ApprovalFacts>() : StandingApproval(call, *found);
  if (!standing) {
    Ask(call, event);
    return;
  }
  event.cause = Cause::kApproved;
  event.detail = "goes on with what was approved by " + LastWord(*standing);
  event.approval = std::move(standing);
  event.request.reset();
}

// What was there before an attempt of unknown outcome is what its undo has to bring back. What
// waits for a human is read when it is sent.
Result<void> ReferenceEngine::TakeBefore(NewOperation& call, const Found* found) {
  if (found != nullptr && found->entry.phase == Phase::kUncertain) {
    auto last = ReadEvent(found->entry.last_event);
    if (!last) return std::unexpected(last.error());
    call.event.state = std::move(last->state);
    call.wants_before = false;
  }
  const bool waits = call.approval && (found == nullptr || !StandingApproval(call, *found));
  if (waits) {
    call.wants_before = false;
    call.event.state.reset();
  }
  return {};
}

// By either clock, so that neither a clock set back nor a restart gives it more time.
Millis ReferenceEngine::TimeLeft(const ApprovalFacts& facts) const {
  const MonoTime now = clock_.Now();
  // Asked by an earlier process, at a time that is still to come: nobody knows how long ago.
  if (facts.asked_row < process_first_seq_ && WallMs() < facts.asked_ms) return kNoTimeLeft;
  const std::int64_t age_ms = jumps_.AgeMs(facts.asked_row, facts.asked_ms, now, WallMs());
  const std::int64_t lived_ms = ages_.LivedMs(now) - facts.asked_lived_ms;
  return Millis(facts.expires_ms - std::max({age_ms, lived_ms, std::int64_t{0}}));
}

std::optional<Error> ReferenceEngine::ClaimRefusal(const NewOperation& call) {
  if (!call.event.request || !CanBeKept(*call.event.request)) {
    return NotSent(ErrorCode::kRequestTooLarge,
                   "the call needs a human's approval and is too large to be kept for that");
  }
  const std::uint64_t granted =
      call.quota.pending_approvals.value_or(limits::kPendingApprovalsPerCaller);
  const auto waiting = std::count_if(claims_.begin(), claims_.end(), [&](const auto& claim) {
    return claim.second.caller == call.event.caller;
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

Result<Event> ReferenceEngine::LoadClaim(const KeyEntry& entry) {
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

Result<void> ReferenceEngine::EndPendingApproval(Event& event, Cause cause, std::string detail,
                                                 const KeyEntry& entry) {
  event.phase = Phase::kExpired;
  event.cause = cause;
  event.detail = std::move(detail);
  DropRequestAndOriginal(event);
  ended_claims_.push_back(event.operation);
  return AppendEvent(event, &entry);
}

// The one dispatch that an approval is good for: compared and written in one transaction.
Result<ReferenceEngine::BeginStep> ReferenceEngine::BeginApproved(NewOperation& call) {
  if (is_latched_) return std::unexpected(Latched());
  if (is_restored()) {
    return std::unexpected(
        NotSent(ErrorCode::kLedgerRestored,
                "the event log was restored from a backup: it may have been sent after that"));
  }
  auto found = FindByOperation(call.approved);
  if (!found) return std::unexpected(found.error());
  if (!*found || (*found)->entry.phase != Phase::kApproved) {
    return std::unexpected(NotSent(ErrorCode::kInternal, "no approved operation has that number"));
  }
  const KeyEntry& entry = (*found)->entry;
  auto approved = LoadClaim(entry);
  if (!approved) return std::unexpected(approved.error());
  BeginStep step;
  step.begun.event = std::move(*approved);
  Event& event = step.begun.event;
  const ApprovalFacts& facts = *event.approval;
  const ApprovalRuling over = JudgeOrder({.kind = ApprovalOrder::Kind::kExpire,
                                          .operation = event.operation,
                                          .policy = call.policy_in_force},
                                         event, IsOverInTime(event, TimeLeft(facts)));
  const bool is_fenced = event.is_step && flows_.FencedBy(event.caller, event.flow) != 0;
  if (over.to || is_fenced) {
    step.begun.kind = Begun::Kind::kHeld;
    const auto ended =
        EndPendingApproval(event, over.to ? over.cause : Cause::kFlowClosed,
                           over.to ? over.text : "its flow takes no further writes", entry);
    if (!ended) return std::unexpected(ended.error());
    step.writes_event = true;
    return step;
  }
  if (call.wants_before) {
    step.begun.kind = Begun::Kind::kNeedsBefore;
    return step;
  }
  event.phase = Phase::kDispatching;
  event.cause = Cause::kApproved;
  ++event.attempt;
  event.state = std::move(call.event.state);
  event.settle = std::move(call.event.settle);
  event.dedupe_domain = call.event.dedupe_domain;
  event.key_field = std::move(call.event.key_field);
  // From now on only what may be sent again to find out what it did is kept; the rows before tell
  // what was approved.
  event.request = std::move(call.event.request);
  event.request_left_out = call.event.request_left_out;
  event.detail = call.event.detail.empty() ? "approved by " + LastWord(facts) : call.event.detail;
  event.approval->original_body.reset();
  if (auto done = AppendEvent(event, &entry); !done) return std::unexpected(done.error());
  CountAttempt(event, false);
  event.request.reset();  // its sender has it
  step.writes_event = true;
  return step;
}

void ReferenceEngine::NoteOrder(const ApprovalOrder& order, const ApprovalRuling& ruling,
                                Event& event) {
  using Kind = ApprovalDecision::Kind;
  const bool is_reject = order.kind == ApprovalOrder::Kind::kReject;
  ApprovalFacts& facts = *event.approval;
  ApprovalDecision decision;
  decision.kind = is_reject ? Kind::kRejected : order.body ? Kind::kEdited : Kind::kApproved;
  decision.is_late = ruling.kind != ApprovalRuling::Kind::kTaken;
  if (order.body && !decision.is_late) EditBody(*order.body, event);
  decision.who = order.by.name;
  decision.reason = order.reason.substr(0, limits::kFlowReasonBytesMax);
  decision.wall_ms = std::max(WallMs(), facts.asked_ms);
  decision.digest = facts.digest;
  facts.decisions.push_back(std::move(decision));
}

Result<ApprovalOutcome> ReferenceEngine::Decide(ApprovalOrder& order) {
  if (is_latched_) return std::unexpected(Latched());
  auto found = FindByOperation(order.operation);
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::unexpected(Error(ErrorCode::kInternal, "no such operation"));
  const KeyEntry& entry = (*found)->entry;
  auto event = LoadClaim(entry);
  if (!event) return std::unexpected(event.error());
  const bool is_over = event->approval && IsOverInTime(*event, TimeLeft(*event->approval));
  ApprovalRuling ruling = JudgeOrder(order, *event, is_over);
  ApprovalOutcome outcome{ruling.kind, std::move(ruling.text), std::move(*event), false};
  if (!ruling.to && !ruling.is_noted) return outcome;
  if (order.body && ruling.kind == ApprovalRuling::Kind::kTaken) {
    RenderedRequest edited = *outcome.event.request;
    edited.body = *order.body;
    if (!CanBeKept(edited)) {
      outcome.kind = ApprovalRuling::Kind::kOtherRequest;
      outcome.text = "the edited body is larger than what is kept of a request";
      return outcome;
    }
  }
  if (ruling.is_noted) NoteOrder(order, ruling, outcome.event);
  // Why it is over says whether a repeat asks anew.
  const bool stays_over = !ruling.to && outcome.event.phase == Phase::kExpired;
  if (!stays_over) outcome.event.cause = ruling.to ? ruling.cause : Cause::kTooLate;
  if (ruling.to) {
    outcome.moved = true;
    outcome.event.phase = *ruling.to;
    outcome.event.detail = outcome.text;
    if (IsFinal(*ruling.to)) DropRequestAndOriginal(outcome.event);
  }
  if (auto done = AppendEvent(outcome.event, &entry); !done) return std::unexpected(done.error());
  if (ruling.to && IsFinal(*ruling.to)) ended_claims_.push_back(outcome.event.operation);
  return outcome;
}

Result<std::vector<PendingApproval>> ReferenceEngine::Claims(std::uint64_t after,
                                                             std::size_t limit) {
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

// What waits in a flow that breaks is never sent, in the commit that fences the flow.
void ReferenceEngine::EndClaimsOf(const FlowState& flow) {
  if (claims_.empty()) return;
  const Digest key = FlowKeyOf(flow.caller, flow.id);
  std::vector<std::uint64_t> operations;
  for (const auto& [operation, claim] : claims_) {
    if (claim.flow == key) operations.push_back(operation);
  }
  for (const std::uint64_t operation : operations) {
    const auto found = FindByOperation(operation);
    if (!found || !*found) continue;  // it is refused when it is to be sent
    auto event = LoadClaim((*found)->entry);
    if (!event) continue;
    (void)EndPendingApproval(*event, Cause::kFlowClosed, "its flow takes no further writes",
                             (*found)->entry);
  }
}

void ReferenceEngine::TrackClaim(std::uint64_t operation, Phase phase, OpenClaim claim) {
  if (const auto known = claims_.find(operation); known != claims_.end()) {
    claim_bytes_ -= known->second.bytes;
    claims_.erase(known);
  }
  if (!IsClaim(phase)) return;
  claim_bytes_ += claim.bytes;
  claims_.emplace(operation, std::move(claim));
}

void ReferenceEngine::ReplayClaim(const RowView& row, const EventFront& front) {
  OpenClaim claim{.last_event = row.head.seq, .bytes = row.bytes.size(), .flow = {}, .caller = {}};
  if (IsClaim(front.phase)) {
    const auto news = NewsOf(row);
    claim.caller = news ? news->caller : std::string_view();
    claim.flow = FlowKeyOf(claim.caller, news ? news->flow : std::string_view());
  }
  TrackClaim(front.operation, front.phase, std::move(claim));
}

}  // namespace recourse
