#include "filters/ledger/rules/record_outcome.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/model/open_flows.h"
#include "filters/ledger/model/standing_notes.h"
#include "filters/ledger/rules/move_flow.h"
#include "filters/ledger/rules/standing_rules.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

std::unexpected<Stop> RefuseOutcome(std::string_view why, Delivery delivery) {
  return Fails(Error(ErrorCode::kInternal, why, delivery));
}

bool IsAbsentStep(const Event& event, Phase to, Cause cause) {
  return to == Phase::kProvenAbsent && event.is_step && cause == Cause::kProbeAbsent;
}

// What turns out to have had its effect all the same can still be undone.
bool KeepsState(const Event& event, Phase to, Cause cause) {
  return !IsFinal(to) || MayHaveEffect(to) || IsAbsentStep(event, to, cause);
}

// Only an unknown or a half-known outcome is ever asked about again, a step that its probe called
// absent, and one whose undo is followed by that question.
void DropWhatIsOver(Event& event, bool keeps_settle) {
  if (!IsFinal(event.phase)) return;
  const bool is_absent_step = IsAbsentStep(event, event.phase, event.cause);
  if (event.phase != Phase::kAnswerLost && !is_absent_step && !keeps_settle) event.settle.reset();
  if (!KeepsState(event, event.phase, event.cause)) event.state.reset();
  event.request.reset();
  event.request_left_out = false;
  event.task.reset();
}

// Turns the operation's last event into the one that `transition` makes of it.
void Advance(Event& event, Transition& transition) {
  event.phase = transition.to;
  event.cause = transition.cause;
  if (transition.to == Phase::kDispatching) ++event.attempt;
  event.detail = std::move(transition.detail);
  if (!transition.external_ref.empty()) event.external_ref = std::move(transition.external_ref);
  if (transition.http_status != 0) event.http_status = transition.http_status;
  event.answer_kept =
      transition.answer_kept && transition.answer.body.size() <= limits::kAnswerKeptBytesMax;
  event.answer = event.answer_kept ? std::move(transition.answer) : HttpResponse();
  if (transition.undo) event.undo = std::move(transition.undo);
  if (transition.drops_undo) event.undo.reset();
  if (transition.task) event.task = std::move(transition.task);
  if (transition.ours && event.state) event.state->ours = std::move(*transition.ours);
  event.found = std::move(transition.found);
  DropWhatIsOver(event, transition.keeps_settle);
}

// With what the effect has made and what ends it.
Judged<Standing> StandingAfter(const Event& event, const Transition& transition,
                               const KeyEntry& entry, Known& known) {
  EventFront write{.operation = event.operation,
                   .phase = transition.to,
                   .cause = transition.cause,
                   .principal = event.principal,
                   .resource = event.resource,
                   .stands = event.stands};
  Standing& stands = write.stands;
  if (transition.undo_resource != Mark{} && transition.undo_resource != stands.undo) {
    std::erase_if(stands.ended_by,
                  [&](const Mark& mark) { return IsUndoPlace(event.stands, mark); });
    DropNotes(NoteKind::kUndoContent, stands);
    DropNotes(NoteKind::kUndoMember, stands);
  }
  stands.made.insert(stands.made.end(), transition.made.begin(), transition.made.end());
  stands.ended_by.insert(stands.ended_by.end(), transition.ended_by.begin(),
                         transition.ended_by.end());
  if (transition.undo_resource != Mark{}) stands.undo = transition.undo_resource;
  return JudgeStanding(std::move(write), known.next_row, &entry, known);
}

// What the step becomes once its undo has succeeded.
Judged<EventWrite> Compensated(std::uint64_t operation, Known& known) {
  const auto found = known.Get(OperationOf{operation});
  if (!found) return std::unexpected(found.error());
  if (!**found || !IsExecuted((**found)->entry.phase)) {
    return RefuseOutcome("the step that was undone has moved on", Delivery::kNotSent);
  }
  const KeyEntry& entry = (**found)->entry;
  const auto last = known.Get(EventAt{entry.last_event, AnswerPart::kOnlyRequest});
  if (!last) return std::unexpected(last.error());
  if ((*last)->is_locked) {
    return RefuseOutcome("the step is sealed with a missing key", Delivery::kNotSent);
  }
  Event event = **last;
  event.id = known.next_row + 1;
  event.phase = Phase::kCompensated;
  event.cause = Cause::kUndone;
  event.detail.clear();
  event.answer_kept = false;
  event.answer = HttpResponse();
  event.settle.reset();
  event.undo.reset();
  event.state.reset();
  return EventWrite{std::move(event), entry};
}

// Bytes of what the outcome keeps besides itself; 0: it keeps none.
struct Kept {
  std::size_t answer = 0, request = 0, state = 0, found = 0;
};

Kept KeptBy(const Transition& transition, const Event& event) {
  Kept kept;
  const std::size_t answer_bytes = transition.answer.body.size();
  if (transition.answer_kept && answer_bytes <= limits::kAnswerKeptBytesMax) {
    kept.answer = answer_bytes + limits::kSmallRowBytes;
  }
  if (transition.to == Phase::kUncertain && event.request) {
    kept.request = event.request->body.size() + limits::kSmallRowBytes;
  }
  if (event.state && KeepsState(event, transition.to, transition.cause)) {
    StateKept state = *event.state;
    if (transition.ours) state.ours = *transition.ours;
    kept.state = BytesOf(state) + limits::kSmallRowBytes;
  }
  if (transition.found) kept.found = limits::kRenderedRequestBytesMax;
  return kept;
}

// The outcome has its place for sure. What it keeps besides is kept if there is room.
Judged<Kept> KeptWithin(const Transition& transition, const Event& event, Known& known) {
  Kept kept = KeptBy(transition, event);
  std::vector<RoomFor> wanted;
  for (const std::size_t bytes : {kept.answer, kept.request, kept.state, kept.found}) {
    if (bytes != 0) wanted.push_back({bytes});
  }
  if (auto all = known.Require(wanted); !all) return std::unexpected(all.error());
  for (std::size_t* const bytes : {&kept.answer, &kept.request, &kept.state, &kept.found}) {
    if (*bytes != 0 && !**known.Get(RoomFor{*bytes})) *bytes = 0;
  }
  return kept;
}

void DropWhatDoesNotFit(const Kept& kept, Event& event) {
  if (kept.answer == 0 && event.answer_kept) {
    event.answer_kept = false;
    event.answer = HttpResponse();
  }
  if (kept.request == 0 && event.request && event.phase == Phase::kUncertain) {
    event.request.reset();
    event.request_left_out = true;
  }
  // Without it an undo that must compare is left to a human.
  if (kept.state == 0) event.state.reset();
  // It only shows people what an undo would have overwritten.
  if (kept.found == 0) event.found.reset();
}

// The flow that the outcome moves, as it is before; nullptr: it moves none.
Judged<const FlowState*> FlowMovedBy(const Transition& transition, const Event& event,
                                     Known& known) {
  const FlowState* none = nullptr;
  if (!transition.flow || (!event.is_step && event.undoes == 0)) return none;
  const Digest key = FlowKeyOf(event.caller, event.flow);
  const auto named = known.Get(FlowNamed{key});
  if (!named) return std::unexpected(named.error());
  if (!(*named)->flow || (*named)->flow->phase != transition.flow->from) return none;
  if (IsFenced(transition.flow->to)) {
    if (auto all = known.Require(std::vector{ApprovalsIn{key}}); !all)
      return std::unexpected(all.error());
  }
  return &*(*named)->flow;
}

// Behind the rows of the plan, which are about its steps.
Judged<void> MoveFlowBehind(FlowState state, const Transition::FlowEffect& effect, Known& known,
                            Plan& plan) {
  for (const RowWrite& write : plan.writes) {
    if (const auto news = NewsOf(std::get<EventWrite>(write).event)) TakeNews(state, *news);
  }
  const Event& event = std::get<EventWrite>(plan.writes.front()).event;
  const std::uint64_t of = event.undoes != 0 ? event.undoes : event.operation;
  // The flow that this step was of may be over, and another one have its name.
  if (std::ranges::find(state.steps, of, &FlowStep::operation) == state.steps.end()) return {};
  state.phase = effect.to;
  state.cause = effect.cause;
  state.reason = effect.reason.substr(0, limits::kFlowReasonBytesMax);
  state.changed_ms = known.wall_ms;
  return PlanFlow(std::move(state), known, plan);
}

// The operation's last event. A final outcome drops its request, so that one which holds nothing
// more need not be opened again where the caller has it.
Judged<Event*> LastEvent(Transition& transition, const FoundOperation& found, Known& known) {
  const bool drops = IsFinal(transition.to) && !found.may_hold_more;
  Event* const held = transition.dispatching;
  if (drops && held != nullptr && held->id == found.entry.last_event) return held;
  return known.Get(
      EventAt{found.entry.last_event, drops ? AnswerPart::kSkipBody : AnswerPart::kOnlyRequest});
}

// Its sender was taken for dead, and tells now what became of it: whoever has the backend's answer
// may say so, as it is true.
bool IsTestimony(const Transition& transition, const KeyEntry& entry) {
  return transition.from == Phase::kDispatching && entry.phase == Phase::kUncertain &&
         entry.cause == Cause::kOwnerLost;
}

}  // namespace

Judged<Plan> Decide(Transition& transition, Known& known) {
  if (known.is_latched) return Fails(LatchedError());
  const auto found = known.Get(OperationOf{transition.operation});
  if (!found) return std::unexpected(found.error());
  if (!**found) return RefuseOutcome("no such operation", Delivery::kUncertain);
  if (!IsMeant(transition.key, (**found)->key)) return Fails(OtherCallError());
  const KeyEntry& entry = (**found)->entry;
  const bool is_as_said = entry.phase == transition.from || IsTestimony(transition, entry);
  if (!is_as_said || entry.attempt != transition.attempt) {
    return RefuseOutcome("the operation has moved on", Delivery::kUncertain);
  }
  if (!IsLegal(entry.phase, transition.to)) {
    return RefuseOutcome("not a legal transition", Delivery::kUncertain);
  }
  const auto last = LastEvent(transition, ***found, known);
  if (!last) return std::unexpected(last.error());
  // It stays as it is until the key is back.
  if ((*last)->is_locked) return Fails(SealedError());
  std::optional<EventWrite> compensated;
  if ((*last)->undoes != 0 && transition.to == Phase::kSucceeded) {
    auto step = Compensated((*last)->undoes, known);
    if (!step) return std::unexpected(step.error());
    compensated = std::move(*step);
  }
  const auto kept = KeptWithin(transition, **last, known);
  auto stands = StandingAfter(**last, transition, entry, known);
  if (!kept || !stands) return StopOf(kept, stands);
  const auto flow = FlowMovedBy(transition, **last, known);
  if (!flow) return std::unexpected(flow.error());

  Plan plan;
  plan.writes.reserve(1 + (compensated ? 1 : 0));
  Event& event = std::get<EventWrite>(plan.writes.emplace_back(std::in_place_type<EventWrite>,
                                                               std::move(**last), entry))
                     .event;
  event.id = known.next_row;
  event.stands = std::move(*stands);
  Advance(event, transition);
  DropWhatDoesNotFit(*kept, event);
  if (compensated) plan.writes.emplace_back(std::move(*compensated));
  if (*flow != nullptr) {
    auto moved = MoveFlowBehind(**flow, *transition.flow, known, plan);
    if (!moved) return std::unexpected(moved.error());
  }
  return plan;
}

}  // namespace recourse
