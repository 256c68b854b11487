#include "filters/ledger/rules/decide_approval.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/ledger/rules/standing_rules.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

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

void NoteOrder(const ApprovalOrder& order, const ApprovalRuling& ruling, std::int64_t wall_ms,
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
  // Clocks of a group differ: it was not decided before it was asked.
  decision.wall_ms = std::max(wall_ms, facts.asked_ms);
  decision.digest = facts.digest;
  facts.decisions.push_back(std::move(decision));
}

bool CanBeEdited(const ApprovalOrder& order, const Event& event) {
  RenderedRequest edited = *event.request;
  edited.body = *order.body;
  return CanBeKept(edited);
}

}  // namespace

void EndApproval(Cause cause, std::string detail, ApprovalState approval, Plan& plan) {
  Event& event = approval.event;
  event.phase = Phase::kExpired;
  event.cause = cause;
  event.detail = std::move(detail);
  DropRequestAndOriginal(event);
  plan.ended.push_back(event.operation);
  plan.writes.emplace_back(EventWrite{std::move(event), approval.found.entry});
}

Judged<ApprovalPlan> Decide(const ApprovalOrder& order, Known& known) {
  if (known.is_latched) return Fails(LatchedError());
  const auto found = known.Get(ApprovalOf{order.operation});
  if (!found) return std::unexpected(found.error());
  if (!**found) return Fails(Error(ErrorCode::kInternal, "no such operation"));
  ApprovalState& approval = ***found;
  if (!IsMeant(order.key, approval.found.key)) return Fails(OtherCallError());
  Event& event = approval.event;
  const bool is_over = IsOverInTime(event, approval.left);
  ApprovalRuling ruling = JudgeOrder(order, event, is_over);
  ApprovalPlan planned{.plan = {}, .reply = {ruling.kind, std::move(ruling.text), {}, false}};
  ApprovalOutcome& outcome = planned.reply;
  const bool is_taken = ruling.kind == ApprovalRuling::Kind::kTaken;
  if (order.body && is_taken && !CanBeEdited(order, event)) {
    outcome.kind = ApprovalRuling::Kind::kOtherRequest;
    outcome.text = "the edited body is larger than what is kept of a request";
    ruling.to.reset();
    ruling.is_noted = false;
  }
  if (!ruling.to && !ruling.is_noted) {
    outcome.event = std::move(event);
    return planned;
  }
  // Why it is over says whether a repeat asks anew.
  const bool stays_over = !ruling.to && event.phase == Phase::kExpired;
  const Phase phase = ruling.to.value_or(event.phase);
  const Cause cause = ruling.to ? ruling.cause : stays_over ? event.cause : Cause::kTooLate;
  auto stands = JudgeStanding({.operation = event.operation,
                               .phase = phase,
                               .cause = cause,
                               .principal = event.principal,
                               .resource = event.resource,
                               .stands = event.stands},
                              known.next_row, &approval.found.entry, known);
  if (!stands) return std::unexpected(stands.error());
  if (ruling.is_noted) NoteOrder(order, ruling, known.wall_ms, event);
  event.phase = phase;
  event.cause = cause;
  event.stands = std::move(*stands);
  if (ruling.to) {
    outcome.moved = true;
    event.detail = outcome.text;
    if (IsFinal(*ruling.to)) {
      DropRequestAndOriginal(event);
      planned.plan.ended.push_back(event.operation);
    }
  }
  planned.plan.writes.emplace_back(EventWrite{std::move(event), approval.found.entry});
  return planned;
}

}  // namespace recourse
