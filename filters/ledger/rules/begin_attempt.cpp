#include "filters/ledger/rules/begin_attempt.h"

#include <utility>

#include "filters/ledger/rules/begin_approval.h"
#include "filters/ledger/rules/standing_rules.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// A later attempt by way of another key still belongs to the operation as it began. Its arguments
// are its own.
void TakeIdentity(const Event& from, Event& to) {
  to.key = from.key;
  to.base_key = from.base_key;
  to.intent = from.intent;
  to.window_ms = from.window_ms;
  to.caller = from.caller;
  to.trace_id = from.trace_id;
}

// A step never changes its flow.
void TakeFlow(const Event& from, Event& to) {
  to.caller = from.caller;
  to.flow = from.flow;
  to.flow_name = from.flow_name;
  to.is_step = from.is_step;
  to.flow_has_deadline = from.flow_has_deadline;
}

Cause CauseOfAttempt(const FoundOperation* previous) {
  if (previous == nullptr) return Cause::kFirstCall;
  return previous->entry.phase == Phase::kUncertain ? Cause::kResend : Cause::kRepeat;
}

AdmissionOf AdmissionFor(const NewOperation& call, bool is_new) {
  const Event& event = call.event;
  const std::size_t settle_bytes = event.settle ? limits::kRenderedRequestBytesMax : 0;
  // Twice: should its outcome stay unknown, that row repeats it.
  std::size_t request_bytes = event.request ? 2 * event.request->body.size() : 0;
  if (event.state) request_bytes += 2 * BytesOf(*event.state);
  return {.caller = event.caller,
          .quota = call.quota,
          .is_new = is_new,
          .is_observed = IsObserved(call),
          .is_undo = event.undoes != 0,
          .asks = call.approval.has_value(),
          .can_be_asked = event.request && CanBeKept(*event.request),
          .bytes_besides = settle_bytes + request_bytes};
}

// What a call that is sent has to know of the operation that it is a further attempt of.
struct AttemptBase {
  Event* last = nullptr;  // null: nothing of it is taken over
  std::uint32_t generation = 0;
  std::uint64_t dispatched = 0;             // of the attempt whose outcome is unknown
  std::optional<ApprovalFacts> standing{};  // under which it goes on
  bool wants_before = false;
};

// What was there before an attempt of unknown outcome is what its undo has to bring back. What
// waits for a human is read when it is sent.
Judged<AttemptBase> BaseOf(const NewOperation& call, const BeginDecision& decision,
                           const FoundOperation* found, Known& known) {
  AttemptBase base;
  base.wants_before = call.wants_before;
  const bool is_resend = CauseOfAttempt(found) == Cause::kResend;
  if (call.approval && found != nullptr) {
    auto standing = StandingApproval(call, *found, known);
    if (!standing) return std::unexpected(standing.error());
    base.standing = std::move(*standing);
  }
  if (is_resend || (call.approval && !base.standing)) base.wants_before = false;
  base.generation = decision.generation;
  if (base.wants_before) return base;
  if (found == nullptr && decision.generation > 0) {
    const auto generation = FreeGeneration(call.event.key, decision.generation, known);
    if (!generation) return std::unexpected(generation.error());
    base.generation = *generation;
  }
  const Digest key = KeyOfGeneration(call.event.key, base.generation);
  if (found != nullptr && (is_resend || found->key != key || call.event.is_step)) {
    const auto last = known.Get(EventAt{found->entry.last_event, AnswerPart::kOnlyRequest});
    if (!last) return std::unexpected(last.error());
    base.last = *last;
  }
  if (is_resend) {
    const auto front = known.Get(FrontOf{found->entry.last_event});
    if (!front) return std::unexpected(front.error());
    base.dispatched = (*front)->stands.dispatched;
  }
  return base;
}

// The attempt itself; `event` is as the call gave it.
void MakeAttempt(const NewOperation& call, const BeginDecision& decision,
                 const FoundOperation* found, AttemptBase base, const Known& known, Event& event) {
  event.base_key = event.key;
  event.window_ms = call.dedupe_window ? call.dedupe_window->count() : 0;
  event.key = KeyOfGeneration(event.base_key, base.generation);
  event.generation = base.generation;
  event.operation = found != nullptr ? found->entry.operation : 0;
  event.cause = CauseOfAttempt(found);
  if (event.cause == Cause::kResend) event.state = std::move(base.last->state);
  if (call.approval && !base.standing) event.state.reset();
  if (found != nullptr && (found->key != event.key || event.is_step)) {
    if (found->key != event.key) TakeIdentity(*base.last, event);
    TakeFlow(*base.last, event);
  }
  event.attempt = decision.attempt;
  event.phase = Phase::kDispatching;
  event.answer_kept = false;
  event.answer = HttpResponse();
  event.undo.reset();
  event.http_status = 0;
  if (event.cause == Cause::kResend) event.stands.dispatched = base.dispatched;
  if (call.approval) AskOrContinue(*call.approval, std::move(base.standing), known, event);
  NoteDispatch(known.next_row, event);
}

}  // namespace

Prediction PredictionOf(const NewOperation& call, const BeginDecision& decision,
                        const FoundOperation* found) {
  Prediction predicted{.verdict = call.event.verdict, .related = call.event.related, .detail = {}};
  if (found == nullptr) return predicted;
  const bool is_resend = CauseOfAttempt(found) == Cause::kResend;
  predicted.verdict = PredictVerdict(call.event.verdict, decision.kind, is_resend);
  if (decision.kind != Begun::Kind::kFresh || is_resend) {
    predicted.related = found->entry.operation;
  }
  if (predicted.verdict == ObserveVerdict::kWouldRefuse) {
    predicted.detail = WhyRefusalIsForeseen(decision.kind);
  }
  return predicted;
}

void Note(Prediction predicted, Event& event) {
  event.verdict = predicted.verdict;
  event.related = predicted.related;
  if (!predicted.detail.empty()) event.detail = std::move(predicted.detail);
}

Judged<void> Admit(const NewOperation& call, bool is_new, Known& known) {
  const auto refusal = known.Get(AdmissionFor(call, is_new));
  if (!refusal) return std::unexpected(refusal.error());
  if (**refusal) return Fails(***refusal);
  return {};
}

Judged<BeginPlan> PlanAttempt(JudgedCall& call, const BeginDecision& decision,
                              const FoundOperation* found, Prediction predicted, Known& known) {
  if (auto admitted = Admit(*call, found == nullptr, known); !admitted) {
    return std::unexpected(admitted.error());
  }
  auto base = BaseOf(*call, decision, found, known);
  if (!base) return std::unexpected(base.error());
  if (base->wants_before) return PlanOf(Begun::Kind::kNeedsBefore);

  NewOperation& own = call.Take();
  Judged<BeginPlan> planned(std::in_place, Plan());  // so that the event is not filled with zeros
  planned->writes_event = true;
  planned->request = BeginPlan::Request::kGoesBack;
  EventWrite& write = std::get<EventWrite>(
      planned->plan.writes.emplace_back(std::in_place_type<EventWrite>, std::move(own.event)));
  Note(std::move(predicted), write.event);
  MakeAttempt(own, decision, found, std::move(*base), known, write.event);
  if (found != nullptr) write.follows = found->entry;
  write.counts = found == nullptr ? EventWrite::Counts::kOperation : EventWrite::Counts::kAttempt;
  if (write.event.phase == Phase::kClaimed) {
    planned->begun.kind = Begun::Kind::kHeld;
  } else {
    planned->waits_for = found != nullptr ? found->entry.operation : known.next_row;
  }
  return planned;
}

}  // namespace recourse
