#include "tests/differential/random_verbs.h"

#include <algorithm>

#include "filters/ledger/index/key_index.h"
#include "filters/ledger/model/standing_notes.h"

namespace recourse::differential {
namespace {

constexpr std::size_t kRemembered = 48;
const Digest kPolicies[] = {DigestOf("policy-0"), DigestOf("policy-1")};

template <class T, class Same>
void Remember(std::vector<T>& known, const T& value, Same same) {
  std::erase_if(known, same);
  if (known.size() == kRemembered) known.erase(known.begin());
  known.push_back(value);
}

}  // namespace

void RandomVerbs::Note(const Event& event) {
  if (event.operation == 0) return;
  Remember(events_, event, [&](const Event& known) { return known.operation == event.operation; });
}

void RandomVerbs::Note(const FlowState& flow) {
  Remember(flows_, flow, [&](const FlowState& known) { return known.number == flow.number; });
}

// Of late ones mostly.
const Event& RandomVerbs::Known() {
  const std::size_t back = std::min(Below(events_.size()), Below(events_.size()));
  return events_[events_.size() - 1 - back];
}

const Event& RandomVerbs::KnownIn(Phase phase) {
  const auto found =
      std::ranges::find_if(events_, [&](const Event& event) { return event.phase == phase; });
  return found == events_.end() ? Known() : *found;
}

RenderedRequest RandomVerbs::Request() {
  return {
      "POST", "/" + Pick("r", 3), {{"Authorization", "secret"}}, std::string(1 + Below(200), 'b')};
}

Snapshot RandomVerbs::State() {
  return {.is_gone = Percent(20), .version = Pick("v", 3), .places = {{"/a", Pick("", 4)}}};
}

void RandomVerbs::TakeStanding(Event& event) {
  constexpr const char* kMethods[] = {"PUT", "DELETE", "PATCH", "POST", "LOCK"};
  const auto method = Below(6);
  if (method == 5) return;
  event.method = kMethods[method];
  event.resource = DigestOf(Pick("resource", 3));
  event.stands.kind = KindOfMethod(event.method);
  event.stands.is_named = Percent(20);
  event.stands.by_others = Percent(10);
  if (Percent(20)) event.stands.leaves.push_back(MarkOf(DigestOf(Pick("did", 3))));
  if (Percent(20)) event.stands.ended_by.push_back(MarkOf(DigestOf(Pick("did", 3))));
  TakeNotes(event.stands);
  if (event.stands.kind != WriteKind::kPatch) return;
  event.stands.members = static_cast<Members>(Below(3));
  if (event.stands.members != Members::kListed) return;
  event.stands.values.push_back(
      {static_cast<std::uint32_t>(Below(2)), static_cast<std::uint32_t>(Below(3))});
}

// That it may be the undo of another write, and what may have undone it.
void RandomVerbs::TakeNotes(Standing& stands) {
  if (Percent(10)) stands.leaves.push_back(DoubtMark(Below(3)));
  if (Percent(10)) stands.ended_by.push_back(NoteOf(NoteKind::kMayUndo, Below(3)));
  if (Percent(10)) stands.ended_by.push_back(NoteOf(NoteKind::kUnproven, 0));
  if (Percent(80)) return;
  stands.ended_by.push_back(NoteOf(Percent(50) ? NoteKind::kWhole : NoteKind::kOwnUndo, 1));
  stands.ended_by.push_back(MarkOf(DigestOf(Pick("did", 3))));
}

void RandomVerbs::TakeFlow(Event& event) {
  event.trace_id = event.flow = Pick("trace", 4);
  event.is_step = Percent(60);
  if (!event.is_step) return;
  event.flow_name = Percent(50) ? "order" : "";
  event.flow_has_deadline = Percent(20);
}

void RandomVerbs::TakeRecognition(NewOperation& call) {
  call.is_retry_only = Percent(25);
  call.has_identity = Percent(20);
  call.may_be_superseded = Percent(60);
  call.across_traces = static_cast<AcrossTraces>(Below(4));
  call.on_mismatch = static_cast<OnMismatch>(Below(3));
  call.across_window = Millis(Percent(50) ? 60'000 : 2'000);
  if (Percent(30)) call.dedupe_window = Millis(1'000 + Below(60'000));
  if (Percent(30)) call.failed_ttl.reset();
  if (Percent(15)) {
    call.older.push_back(
        {.key = DigestOf(Pick("key", 8)),
         .intent = DigestOf(Pick("intent", 4)),
         .args_hash = call.event.args_hash,
         .tool = call.event.tool,
         .caller = Pick("caller", 2),
         .principal = Percent(50) ? std::optional<Principal>(Below(3)) : std::nullopt});
  }
  if (Percent(15) && knows_any()) call.named = Known().key;
}

void RandomVerbs::TakeApproval(NewOperation& call) {
  const ApprovalAsk ask{.needed = 1 + static_cast<int>(Below(2)),
                        .by = {"team"},
                        .expires = Millis(1'000 + Below(100'000)),
                        .policy = kPolicies[Percent(10) ? 1 : 0],
                        .why = "because",
                        .repeats = 0,
                        .may_go_on = Percent(80)};
  if (Percent(20)) {
    call.approval = ask;
    if (Percent(95)) call.event.request = Request();
  }
  if (Percent(30)) call.suspicion = SuspicionAsk{.ask = ask, .request = Request()};
}

// Of a step that needs it, where one is known.
void RandomVerbs::TakeUndo(NewOperation& call) {
  const auto undone = std::ranges::find(flows_, FlowPhase::kUndoing, &FlowState::phase);
  const FlowState& flow = undone == flows_.end() ? flows_[Below(flows_.size())] : *undone;
  const auto due = std::ranges::find_if(flow.steps, NeedsUndo);
  if (due == flow.steps.end()) return;
  const auto forward = std::ranges::find(events_, due->operation, &Event::operation);
  if (forward == events_.end()) return;
  call.event.caller = flow.caller;
  call.event.flow = call.event.trace_id = flow.id;
  call.event.is_step = false;
  call.event.undoes = due->operation;
  call.event.key = UndoKeyOf(forward->key, due->operation);
  call.event.intent = Digest{};
  call.approval.reset();  // nobody is asked about an undo
  call.suspicion.reset();
}

NewOperation RandomVerbs::Begin() {
  const std::string key = Pick("key", 8);
  NewOperation call = Call(key, "trace-1", Pick("args", 3));
  Event& event = call.event;
  event.intent = Percent(80) ? DigestOf(Pick("intent", 4)) : Digest{};
  event.caller = Pick("caller", 2);
  event.tool = Pick("tool", 2);
  event.principal = Percent(70) ? 1 : Below(3);
  TakeFlow(event);
  TakeStanding(event);
  TakeRecognition(call);
  TakeApproval(call);
  call.refusals_are_free = Percent(50);
  call.attempts_max = 1 + static_cast<int>(Below(4));
  call.may_resend = Percent(40);
  if (Percent(20)) call.key_lives = Millis(500 + Below(20'000));
  event.dedupe_domain = Percent(60) ? 1 : Below(3);
  if (Percent(50)) event.key_field = Percent(80) ? "" : Pick("field", 2);
  if (Percent(30)) event.settle = Request();
  if (Percent(30) && !event.request) event.request = Request();
  if (Percent(10)) event.verdict = static_cast<ObserveVerdict>(1 + Below(10));
  if (Percent(10)) call.wants_before = true;
  if (Percent(10)) event.state = StateKept{Request(), State(), State()};
  if (Percent(10)) call.quota.writes_in_flight = 2 + Below(6);
  if (Percent(5)) call.quota.operations_per_hour = 50;
  if (Percent(5)) call.quota.stored_bytes = 4'000 + Below(100'000);
  if (Percent(10)) call.quota.pending_approvals = 1 + Below(3);
  if (Percent(15) && !flows_.empty()) TakeUndo(call);
  if (Percent(5) && knows_any()) {
    call.passes_fence = true;
    event = Known();
  }
  return call;
}

Transition RandomVerbs::Record() {
  constexpr Phase kPhases[] = {Phase::kSucceeded, Phase::kSucceeded,   Phase::kSucceeded,
                               Phase::kUncertain, Phase::kAnswerLost,  Phase::kNotSent,
                               Phase::kRejected,  Phase::kProvenAbsent};
  constexpr Cause kCauses[] = {Cause::kAnswer,       Cause::kAnswer,    Cause::kTimeout,
                               Cause::kRejectedNow,  Cause::kAsksInput, Cause::kProbeAbsent,
                               Cause::kProbePresent, Cause::kHuman};
  const Event& event = Percent(50) ? KnownIn(Phase::kDispatching) : Known();
  Phase to = kPhases[Below(std::size(kPhases))];
  while (Percent(90) && !IsLegal(event.phase, to)) to = kPhases[Below(std::size(kPhases))];
  Transition transition = recourse::Move(event, to, kCauses[Below(std::size(kCauses))]);
  if (Percent(5)) transition.from = static_cast<Phase>(Below(kPhaseCount));
  if (Percent(5)) transition.attempt = static_cast<std::uint16_t>(Below(4));
  transition.detail = Pick("detail", 3);
  transition.http_status = Percent(50) ? 201 : 0;
  if (Percent(30)) transition.external_ref = Pick("ref", 3);
  transition.answer_kept = Percent(60);
  transition.answer.status = 201;
  transition.answer.body = std::string(Below(400), 'a');
  if (Percent(50)) transition.undo = Request();
  if (Percent(20)) transition.made.push_back(MarkOf(DigestOf(Pick("resource", 3))));
  if (Percent(20)) transition.ended_by.push_back(MarkOf(DigestOf(Pick("did", 3))));
  if (Percent(20)) transition.undo_resource = MarkOf(DigestOf(Pick("resource", 3)));
  if (Percent(10)) transition.task = Request();
  if (Percent(10)) transition.ours = State();
  if (Percent(10)) transition.found = State();
  if (Percent(25)) {
    transition.flow = Transition::FlowEffect{
        .to = static_cast<FlowPhase>(Below(kFlowPhaseCount)),
        .cause = static_cast<FlowCause>(Below(kFlowCauseCount)),
        .reason = Pick("reason", 2),
        .from = Percent(70) ? FlowPhase::kOpen : static_cast<FlowPhase>(Below(kFlowPhaseCount))};
  }
  return transition;
}

ApprovalOrder RandomVerbs::Decide() {
  const Event& event = Percent(70) ? KnownIn(Phase::kClaimed) : Known();
  ApprovalOrder order{.kind = static_cast<ApprovalOrder::Kind>(Percent(60) ? 0 : Below(5)),
                      .operation = event.operation,
                      .by = {Pick("person", 3), {Percent(90) ? "team" : "others"}},
                      .digest = {},
                      .policy = kPolicies[Percent(10) ? 1 : 0],
                      .reason = Pick("reason", 3),
                      .body = {}};
  if (event.approval && Percent(90)) order.digest = event.approval->digest;
  if (Percent(5)) order.operation = Below(200);
  if (Percent(5)) order.by.name = event.caller;
  if (order.kind != ApprovalOrder::Kind::kApprove) return order;
  if (Percent(15)) order.body = std::string(Below(100), 'e');
  if (Percent(1)) order.body = std::string(limits::kStoredRequestBodyBytesMax + 1, 'e');
  return order;
}

FlowMove RandomVerbs::Move() {
  FlowMove move{.from = FlowPhase::kOpen, .reason = Pick("reason", 3)};
  if (!flows_.empty() && Percent(70)) {
    const FlowState& flow =
        flows_[flows_.size() - 1 - Below(std::min<std::size_t>(flows_.size(), 8))];
    move.number = flow.number;
    move.from = flow.phase;
    if (Percent(60)) move.reopened = flow;
    for (const FlowStep& step : flow.steps) {
      if (Percent(20)) move.not_needed.push_back({step.operation});
    }
  } else {
    move.caller = Pick("caller", 2);
    move.flow = Pick("trace", 4);
    if (Percent(30)) move.from = static_cast<FlowPhase>(Below(kFlowPhaseCount));
  }
  do {
    move.to = static_cast<FlowPhase>(Below(kFlowPhaseCount));
  } while (Percent(90) && !IsLegal(move.from, move.to));
  if (move.reopened && Percent(60)) {
    move.from = FlowPhase::kCommitted;
    move.to = FlowPhase::kBreaking;
  }
  move.cause = static_cast<FlowCause>(Below(kFlowCauseCount));
  return move;
}

}  // namespace recourse::differential
