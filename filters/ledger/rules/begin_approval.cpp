#include "filters/ledger/rules/begin_approval.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/row_id.h"
#include "filters/ledger/rules/decide_approval.h"
#include "filters/ledger/rules/standing_rules.h"

namespace recourse {
namespace {

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
      PrintRowId(found.operation), NameOf(found.phase),
      is_same_key ? "has the same key and other arguments"
                  : "is the same call under another trace");
}

// The new operation in `event` is not sent but waits.
void Ask(const ApprovalAsk& ask, const Known& known, Event& event) {
  ApprovalFacts& facts = event.approval.emplace();
  facts.needed = static_cast<std::uint16_t>(ask.needed);
  facts.by = ask.by;
  facts.expires_ms = ask.expires.count();
  facts.asked_ms = known.wall_ms;
  facts.asked_row = known.next_row;
  facts.asked_lived_ms = known.lived_ms;
  facts.policy = ask.policy;
  facts.digest = RequestDigest(event.backend, *event.request);
  facts.why = ask.why;
  facts.repeats = ask.repeats;
  event.phase = Phase::kClaimed;
  event.cause = Cause::kAsked;
  --event.attempt;  // counted when it is sent
}

// From now on only what may be sent again to find out what it did is kept; the rows before tell
// what was approved.
void SendApproved(NewOperation& call, Event& event) {
  event.phase = Phase::kDispatching;
  event.cause = Cause::kApproved;
  ++event.attempt;
  event.state = std::move(call.event.state);
  event.settle = std::move(call.event.settle);
  event.dedupe_domain = call.event.dedupe_domain;
  event.key_field = std::move(call.event.key_field);
  event.request = std::move(call.event.request);
  event.request_left_out = call.event.request_left_out;
  event.detail =
      call.event.detail.empty() ? "approved by " + LastWord(*event.approval) : call.event.detail;
  event.approval->original_body.reset();
}

}  // namespace

void Suspect(const FoundOperation& found, bool is_same_key, NewOperation& call) {
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

Judged<std::optional<ApprovalFacts>> StandingApproval(const NewOperation& call,
                                                      const FoundOperation& found, Known& known) {
  const KeyEntry& entry = found.entry;
  if (entry.phase != Phase::kNotSent || entry.cause != Cause::kAsksInput) return std::nullopt;
  if (entry.args_hash != call.event.args_hash || call.approval->repeats != 0) return std::nullopt;
  if (!call.approval->may_go_on) return std::nullopt;
  const auto last = known.Get(ApprovalOf{entry.operation});
  if (!last && std::holds_alternative<Need>(last.error())) return std::unexpected(last.error());
  if (!last || !**last || !(**last)->event.approval) return std::nullopt;
  const ApprovalFacts& facts = *(**last)->event.approval;
  // What a human wrote into the arguments is kept no more: these are the agent's own.
  const bool is_edited = std::ranges::any_of(facts.decisions, [](const ApprovalDecision& one) {
    return one.kind == ApprovalDecision::Kind::kEdited && !one.is_late;
  });
  const bool is_over = (**last)->left <= Millis(0);
  if (is_edited || facts.policy != call.approval->policy || is_over) return std::nullopt;
  return facts;
}

void AskOrContinue(const ApprovalAsk& ask, std::optional<ApprovalFacts> standing,
                   const Known& known, Event& event) {
  if (!standing) {
    Ask(ask, known, event);
    return;
  }
  event.cause = Cause::kApproved;
  event.detail = "goes on with what was approved by " + LastWord(*standing);
  event.approval = std::move(standing);
  event.request.reset();
}

Judged<std::optional<RefusedCall>> FindNo(const Digest& key, Millis expires, Known& known) {
  const auto operation = known.Get(IntentOf{key});
  if (!operation) return std::unexpected(operation.error());
  if (!**operation) return std::nullopt;
  const auto found = known.Get(OperationOf{***operation});
  if (!found) return std::unexpected(found.error());
  if (!**found || (**found)->entry.phase != Phase::kDenied) return std::nullopt;
  const KeyEntry& entry = (**found)->entry;
  const auto event = known.Get(EventAt{entry.last_event, AnswerPart::kOnlyRequest});
  if (!event) return std::unexpected(event.error());
  // Of a row whose key is missing the time of its last word counts.
  const ApprovalDecision* const no = NoTo(**event);
  if (no == nullptr && !(*event)->is_locked) return std::nullopt;
  std::int64_t age_ms = known.wall_ms - entry.last_wall_ms;
  if (no != nullptr) {
    const auto said = known.Get(AgeOf{entry.last_event, no->wall_ms});
    if (!said) return std::unexpected(said.error());
    age_ms = **said;
  }
  if (age_ms > expires.count()) return std::nullopt;
  return RefusedCall{***found, *event};
}

Judged<BeginPlan> DecideApproved(NewOperation& call, Known& known) {
  const auto refuse = [](ErrorCode code, std::string_view why) {
    return Fails(Error(code, why, Delivery::kNotSent));
  };
  if (known.is_latched) return Fails(LatchedError());
  if (known.is_restored) {
    return refuse(ErrorCode::kLedgerRestored,
                  "the event log was restored from a backup: it may have been sent after that");
  }
  const auto found = known.Get(OperationOf{call.approved});
  if (!found) return std::unexpected(found.error());
  if (!**found || (**found)->entry.phase != Phase::kApproved) {
    return refuse(ErrorCode::kInternal, "no approved operation has that number");
  }
  if (!IsMeant(call.approved_key, (**found)->key)) {
    return refuse(ErrorCode::kInternal, OtherCallError().detail());
  }
  const auto state = known.Get(ApprovalOf{call.approved});
  if (!state) return std::unexpected(state.error());
  ApprovalState& approved = ***state;
  Event& event = approved.event;
  const ApprovalRuling over = JudgeOrder({.kind = ApprovalOrder::Kind::kExpire,
                                          .operation = event.operation,
                                          .policy = call.policy_in_force},
                                         event, IsOverInTime(event, approved.left));
  bool is_fenced = false;
  if (event.is_step) {
    const auto flow = known.Get(FlowNamed{FlowKeyOf(event.caller, event.flow)});
    if (!flow) return std::unexpected(flow.error());
    is_fenced = (*flow)->fenced_by != 0;
  }
  BeginPlan planned;
  if (over.to || is_fenced) {
    planned.begun.kind = Begun::Kind::kHeld;
    planned.writes_event = true;
    EndApproval(over.to ? over.cause : Cause::kFlowClosed,
                over.to ? over.text : "its flow takes no further writes", std::move(approved),
                planned.plan);
    return planned;
  }
  if (call.wants_before) {
    planned.begun.kind = Begun::Kind::kNeedsBefore;
    planned.begun.event = std::move(event);
    return planned;
  }
  SendApproved(call, event);
  NoteDispatch(known.next_row, event);
  planned.writes_event = true;
  planned.request = BeginPlan::Request::kWithSender;
  planned.plan.writes.emplace_back(
      EventWrite{std::move(event), approved.found.entry, EventWrite::Counts::kAttempt});
  return planned;
}

}  // namespace recourse
