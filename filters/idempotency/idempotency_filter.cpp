#include "filters/idempotency/idempotency_filter.h"

#include <algorithm>

#include "filters/call/answers.h"
#include "filters/call/key_placeholder.h"
#include "filters/call/poll_token.h"
#include "filters/call/redirect.h"
#include "filters/call/upstream_request.h"
#include "filters/flow_effect.h"
#include "filters/idempotency/precondition.h"
#include "filters/idempotency/spelling.h"
#include "filters/key/event_answer.h"
#include "filters/key/standing_marks.h"
#include "filters/ledger/rules/begin_decision.h"
#include "filters/tracing.h"
#include "proxy/base/crash_point.h"

namespace recourse {
namespace {

constexpr const char* kNoMemory = "calls hold all the memory that they may";
constexpr std::string_view kTaskIsLost =
    "what the server took on has ended without telling whether it acted, or is forgotten";

constexpr std::string_view kAsksForState =
    "this answer was given before, and nothing was done now; if the call asks how things stand, "
    "its tool needs effect: read";

// Whether the call may be told more of the operation than how it stands.
bool MaySee(Principal principal, const Event& event) {
  return MayBeShown(principal, event.principal) || event.phase == Phase::kDenied ||
         event.phase == Phase::kExpired || IsClaim(event.phase);
}

// Whether the operation came through another tool, whose answers this call cannot take.
bool IsOfOtherDoor(const RequestContext& context, const Event& event) {
  return context.policy != nullptr && context.tool != nullptr &&
         context.policy->AreDoors(*context.tool, event.tool);
}

Outcome Replay(RequestContext& context, Principal principal, const Event& event,
               AnswerSource origin = AnswerSource::kReplay) {
  if (!MaySee(principal, event)) return LocalOutcome(AnswerToOthers(event));
  if (IsOfOtherDoor(context, event)) return LocalOutcome(AnswerAtOtherDoor(event));
  WriteAnswer answer = AnswerToRepeat(event, origin);
  context.replayed = !answer.error && origin == AnswerSource::kReplay;
  if (!answer.error && IsFinalWord(event)) {
    context.answers = AttemptId::Of(event);
  }
  return LocalOutcome(std::move(answer));
}

// What a call needs besides its body before anything is sent: the body taken apart, the request
// that is stored, and room for an answer, of which nothing is known yet.
bool HoldsWhatItNeeds(const RequestContext& context, const PreparedCall& prepared) {
  if (context.keeper == nullptr) return true;
  const auto& kept = prepared.operation.event.request;
  return context.keeper->Hold(HeldFor::kReading,
                              SizeOf(*prepared.body) + (kept ? kept->body.size() : 0)) &&
         context.keeper->Hold(HeldFor::kAnswer, limits::kAnswerFirstBytes);
}

// While it lives, the call waits for another one's outcome, and needs nothing but its request.
class Waiting {
 public:
  explicit Waiting(RequestContext& context) : keeper_(context.keeper) {
    if (keeper_ == nullptr) return;
    if (!context.reading) (void)keeper_->Hold(HeldFor::kReading, 0);
    (void)keeper_->Hold(HeldFor::kAnswer, 0);
    keeper_->Becomes(CallKeeper::State::kWaiting);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    if (keeper_ != nullptr) keeper_->Becomes(CallKeeper::State::kAtWork);
  }

 private:
  CallKeeper* const keeper_;
};

int WholeSeconds(Millis time) {
  return static_cast<int>(std::chrono::ceil<std::chrono::seconds>(time).count());
}

Outcome Refusal(const RequestContext& context, const Error& error) {
  return LocalOutcome(MakeProblem(error.code(), RefusalDetail(context, error)));
}

bool IsResend(const Event& dispatching) { return dispatching.cause == Cause::kResend; }

// The ledger refuses. What may have been sent earlier must not be told as not executed.
Outcome LedgerRefusal(const Error& error, Delivery delivery) {
  ProblemFacts facts;
  if (delivery != Delivery::kNotSent) facts.speaks_for = ErrorCode::kOutcomeUnknown;
  return LocalOutcome(MakeProblem(error.code(), error.detail(), facts));
}

// The same after an attempt that sent nothing.
Outcome UnsentRefusal(const Error& error, const Event& dispatching) {
  return LedgerRefusal(error, IsResend(dispatching) ? Delivery::kUncertain : Delivery::kNotSent);
}

const ApprovalRule* RuleOf(const RequestContext& context) {
  const Tool& tool = ToolOf(context);
  return tool.approval ? &*tool.approval : nullptr;
}

Millis HoldOf(const RequestContext& context) {
  const ApprovalRule* const rule = RuleOf(context);
  const Millis own = ToolOf(context).hold;
  return rule == nullptr ? own : rule->hold.value_or(own);
}

Result<Answer> AnswerOf(Result<Outcome> outcome) {
  if (!outcome) return std::unexpected(outcome.error());
  return std::move(outcome->answer);
}

// A client that follows a redirect by itself must come back here.
void KeepOnOurWay(const RequestContext& context, Answer& answer, Verdict& verdict) {
  if (!context.came_as_backend || IsLoggedOnly(context) || context.policy == nullptr) return;
  const std::string* const location = FindHeader(answer.response.headers, "Location");
  if (location == nullptr) return;
  RedirectPlan plan =
      PlanRedirect(*context.policy, *context.backend, answer.response.status, *location);
  if (plan.kind == RedirectPlan::Kind::kRewrite) {
    SetHeader(answer.response.headers, "Location", plan.location);
  } else if (plan.kind == RedirectPlan::Kind::kRefuse) {
    verdict.problem = ErrorCode::kBackendProtocol;
    verdict.detail = std::move(plan.why);
  }
}

// Apart where there is room for that.
[[gnu::noinline]] Task<std::optional<Json>> ReadLargeAnswer(const RequestContext& context,
                                                            const Answer& answer) {
  std::optional<Json> body;
  const auto read = [&body, &answer] { body = ReadAnswerBody(answer); };
  if (!co_await context.keeper->RunApart(read, *context.executor)) read();
  co_return body;
}

bool IsLargeAnswer(const RequestContext& context, const Answer& answer) {
  return context.keeper != nullptr && answer.response.body.size() >= limits::kLargeBodyBytes;
}

CallValues WithAnswer(CallValues values, const Result<Answer>& result,
                      const std::optional<Json>& body) {
  if (!result) return values;
  values.answer_status = result->response.status;
  values.answer_headers = &result->response.headers;
  values.answer_body = body ? &*body : nullptr;
  return values;
}

}  // namespace

Task<Result<Outcome>> IdempotencyFilter::Handle(RequestContext& context, Next next) {
  const MonoTime now = parts_.clock.Now();
  Call call{nullptr, kNoPrincipal, false, now + ToolOf(context).hold, now + HoldOf(context)};
  ProblemFacts last;
  int races = 0;
  for (int look = 0; look < limits::kLedgerLooksMax; ++look) {
    Result<Begun> begun = std::unexpected(Error());
    {
      // The ledger takes what it is asked, so a further look asks anew; hardly any call needs one.
      auto prepared = IsLarge(context) ? co_await PrepareApart(context) : Prepare(context);
      if (!prepared) co_return std::move(prepared.error());
      if (!HoldsWhatItNeeds(context, *prepared)) {
        co_return Refusal(context, Error(ErrorCode::kOverloaded, kNoMemory, Delivery::kNotSent));
      }
      call.body = std::move(prepared->body);
      call.principal = prepared->operation.event.principal;
      call.is_named = prepared->key.is_named;
      context.shares_flow = prepared->shares_flow;
      prepared->operation.wait = &context.waits;
      begun = co_await parts_.ledger.Begin(std::move(prepared->operation), *context.executor);
    }
    if (!begun) co_return LedgerRefusal(begun.error(), begun.error().delivery());
    context.operation = begun->event.operation;
    if (begun->kind == Begun::Kind::kFresh) {
      Outcome outcome = co_await RunAttempt(context, next, call, *begun);
      if (!context.lost_race || ++races == limits::kLostRacesMax) co_return outcome;
      look = 0;
      continue;
    }
    if (begun->kind == Begun::Kind::kOtherKey) {
      SpellAsBefore(begun->event, call.body, call.is_named, context);
      continue;
    }
    if (begun->kind == Begun::Kind::kNeedsBefore) {
      if (auto refusal = co_await parts_.before.Read(context, *call.body)) {
        co_return std::move(*refusal);
      }
      continue;
    }
    context.before.reset();  // it may be another state by the next look
    // A replay is told at once.
    if (begun->kind != Begun::Kind::kReplay) last = FactsOfEvent(begun->event);
    call.body.reset();  // a further look reads it again
    if (IsLarge(context)) context.reading.reset();
    std::optional<Outcome> answer = co_await Repeat(context, call, *begun);
    if (answer) co_return std::move(*answer);
  }
  co_return LocalOutcome(
      MakeProblem(ErrorCode::kInProgress, "the same call is being worked on", last));
}

Task<Outcome> IdempotencyFilter::RunAttempt(RequestContext& context, Next next, const Call& call,
                                            Begun& begun) {
  RC_CRASH_POINT("k02");
  if (begun.event.flow_has_deadline) parts_.flowing.Watch(begun.event);
  context.commit = begun.commit;
  context.upstream_key = SentKey(begun.event, KeyOf(context));
  context.placed = PlacedTextsOf(context, *call.body, context.upstream_key, ToHex(begun.event.key));
  context.if_match = IfMatchOf(context, *call.body, begun.event);
  context.lost_race = false;
  if (context.is_traced) {
    context.attempt_span =
        AttemptSpanId(context.trace.trace_id, begun.event.operation, begun.event.attempt);
  }
  if (auto added = AddCredentials(context, begun.event); !added) {
    co_return co_await GiveBack(context, begun.event,
                                LocalOutcome(MakeProblem(ErrorCode::kNotSent, added.error())));
  }
  context.dispatching = &begun.event;
  Result<Outcome> outcome = co_await next(context);
  context.dispatching = nullptr;
  const std::shared_ptr<PendingCommit> commit = std::move(context.commit);
  const bool is_durable = commit == nullptr || commit->is_durable();
  if (!outcome && outcome.error().code() == ErrorCode::kLedgerUnavailable && !is_durable) {
    // Nothing was sent, and the ledger takes no more words about it.
    co_return UnsentRefusal(outcome.error(), begun.event);
  }
  if (outcome && outcome->local) {
    co_return co_await GiveBack(context, begun.event, std::move(*outcome));
  }
  if (outcome) RC_CRASH_POINT("k10");
  // Awaited in one place: its frame is large, and part of this one.
  co_return co_await Conclude(context, call, begun.event, AnswerOf(std::move(outcome)));
}

// Of a call that goes on with one that was approved: it is sent with the same ones.
std::expected<void, std::string> IdempotencyFilter::AddCredentials(RequestContext& context,
                                                                   const Event& begun) const {
  const ApprovalRule* const rule = RuleOf(context);
  if (!begun.approval || context.approved != 0 || rule == nullptr || !parts_.read_secret) return {};
  return AddSecrets(rule->secrets, parts_.read_secret, context.credentials);
}

Task<Outcome> IdempotencyFilter::GiveBack(RequestContext& context, const Event& dispatching,
                                          Outcome refusal) {
  Transition transition =
      Transition::Unsent(dispatching, "a later filter answered; nothing was sent");
  if (context.keeper != nullptr) transition.told_by = MonoTime{};
  const Result<Event> recorded =
      co_await parts_.ledger.Record(std::move(transition), *context.executor);
  if (!recorded) co_return UnsentRefusal(recorded.error(), dispatching);
  co_return refusal;
}

Task<Outcome> IdempotencyFilter::Conclude(RequestContext& context, const Call& call,
                                          Event& dispatching, Result<Answer> result) {
  const Tool& tool = ToolOf(context);
  if (result) {
    StripOwnFields(result->response.headers);
    result->body_complete = result->body_complete || EndsByItself(*result);
  }
  std::optional<Json> body;
  if (result && ReadsAnswerBody(tool, context.backend)) {
    body = IsLargeAnswer(context, *result) ? co_await ReadLargeAnswer(context, *result)
                                           : ReadAnswerBody(*result);
  }
  CallValues values = WithAnswer(ValuesOfCall(context, *call.body), result, body);
  values.key = context.upstream_key;
  if (dispatching.state) values.before = &dispatching.state->before;
  Verdict verdict = ClassifyAttempt(dispatching, tool, *context.backend, result, values);
  verdict = OfVanished(std::move(verdict), context, dispatching);
  if (HasLostRace(context, verdict)) {
    context.before.reset();
    (void)co_await parts_.before.Read(context, *call.body);
    verdict = OfLostRace(context, values);
    context.lost_race = verdict.phase == Phase::kNotSent;
  }
  if (result && !verdict.problem) KeepOnOurWay(context, *result, verdict);
  if (result && !verdict.problem && context.approved != 0) {
    // Before it is durable: whoever waits for it goes on then.
    parts_.approving.KeepFirstAnswer(AttemptId::Of(dispatching), result->response);
  }
  Transition transition = MakeTransition(dispatching, verdict, tool, result, values);
  if (dispatching.is_step && context.policy != nullptr) {
    transition.flow = FlowEffectOf(*context.policy, tool, transition.to);
  }
  AddEffect({context.policy.get(), *context.backend, context.path,
             result ? &result->response : nullptr, &values},
            secret_, dispatching, transition);
  const bool breaks_flow = transition.flow && transition.flow->to == FlowPhase::kBreaking;
  ProblemFacts facts;
  facts.event = dispatching.id;
  facts.flow = dispatching.flow;
  const Digest key = dispatching.key;
  transition.dispatching = &dispatching;
  if (context.keeper != nullptr) transition.told_by = context.deadline;
  Result<Event> recorded = co_await parts_.ledger.Record(std::move(transition), *context.executor);
  if (!recorded) {
    // What happened at the backend is not remembered, so nobody may build on it.
    facts.key = ToHex(key);
    if (verdict.phase != Phase::kNotSent) facts.speaks_for = ErrorCode::kOutcomeUnknown;
    co_return LocalOutcome(
        MakeProblem(ErrorCode::kLedgerUnavailable,
                    "the outcome of the call could not be written to the event log", facts));
  }
  RC_CRASH_POINT("k12");
  context.ref_missing =
      recorded->phase == Phase::kSucceeded && tool.external_ref && recorded->external_ref.empty();
  if (recorded->phase == Phase::kUncertain) {
    context.unknown = recorded->operation;
    context.unknown_attempt = recorded->attempt;
    context.unknown_key = recorded->key;
    parts_.settling.Watch(*recorded);
  }
  if (breaks_flow) parts_.flowing.Watch(*recorded);
  Outcome outcome = AnswerToFirst(*recorded, verdict, result ? std::move(*result) : Answer());
  if (!outcome.local && IsFinalWord(*recorded)) {
    context.answers = AttemptId::Of(*recorded);
  }
  co_return outcome;
}

Task<std::optional<Outcome>> IdempotencyFilter::Repeat(RequestContext& context, const Call& call,
                                                       Begun& begun) {
  if (begun.kind == Begun::Kind::kRunning || begun.kind == Begun::Kind::kHeld) {
    std::optional<Outcome> joined;
    if (begun.kind == Begun::Kind::kRunning) {
      joined = co_await AfterJoin(context, call, std::move(begun.event));
    } else {
      joined = co_await Hold(context, call, begun);
    }
    if (begun.is_answered) context.answers.reset();
    co_return joined;
  }
  if (begun.kind == Begun::Kind::kReplay || begun.kind == Begun::Kind::kUnknown) {
    if (auto first = FirstTelling(context, call.principal, begun.event)) co_return std::move(first);
  }
  if (begun.kind == Begun::Kind::kUnknown) {
    begun.event.dedupe_domain = 0;  // the backend's own key will not tell: it is not sent again
    co_return co_await Settle(context, call, std::move(begun.event));
  }
  if (begun.kind == Begun::Kind::kOtherCredentials) {
    co_return LocalOutcome(AnswerToOthers(begun.event));
  }
  // Arguments of two doors have two forms: that they differ says nothing.
  if (begun.kind == Begun::Kind::kConflict && IsOfOtherDoor(context, begun.event)) {
    if (begun.event.phase == Phase::kUncertain) {
      co_return co_await Settle(context, call, std::move(begun.event));
    }
    co_return Replay(context, call.principal, begun.event);
  }
  if (const std::optional<ErrorCode> refusal = RefusalOf(begun)) {
    ProblemFacts facts = FactsOfEvent(begun.event);
    if (begun.kind == Begun::Kind::kTooOften) facts.retry_after_s = WholeSeconds(begun.again_in);
    co_return LocalOutcome(MakeProblem(*refusal, EarlierCallDetail(*refusal, begun.event), facts));
  }
  Outcome told = Replay(context, call.principal, begun.event);
  if (begun.is_answered) context.answers.reset();
  // Who names the call repeats it knowingly.
  if (context.replayed && !call.is_named && begun.replays >= limits::kReplaysOfState) {
    context.asks_for_state = true;
    SetHeader(told.local->response.headers, "Recourse-Advice", kAsksForState);
  }
  co_return told;
}

// As Ledger::Join, and as long as there is a client that waits. One that may have left is not
// waited with for long, as its request takes memory.
Task<Result<std::optional<Event>>> IdempotencyFilter::Join(RequestContext& context,
                                                           const Event& running, MonoTime until) {
  const Waiting waiting(context);
  CallKeeper* const keeper = context.keeper;
  bool may_have_left = false;
  for (;;) {
    const MonoTime look =
        keeper == nullptr ? until : std::min(until, parts_.clock.Now() + limits::kWaitLook);
    auto joined = co_await parts_.ledger.Join(running.operation, look, *context.executor);
    // Nobody is told what became of another call.
    if (joined && *joined && (*joined)->key != running.key) {
      co_return std::unexpected(OtherCallError());
    }
    if (!joined || *joined || look >= until || keeper->HasLeft()) co_return joined;
    // As many wait for it as may.
    const MonoTime now = parts_.clock.Now();
    if (now < look) co_return joined;
    if (!may_have_left && keeper->MayHaveLeft()) {
      may_have_left = true;
      until = std::min(until, now + limits::kHalfClosedWait);
    }
  }
}

std::optional<Outcome> IdempotencyFilter::FirstTelling(RequestContext& context, Principal principal,
                                                       const Event& event,
                                                       AnswerSource origin) const {
  if (!event.approval || context.approved != 0 || IsOfOtherDoor(context, event)) {
    return std::nullopt;
  }
  if (!MayBeShown(principal, event.principal)) return std::nullopt;
  auto response = parts_.approving.TakeFirstAnswer(AttemptId::Of(event));
  if (!response) return std::nullopt;
  if (event.phase == Phase::kUncertain) {
    Answer answer;
    answer.response = std::move(*response);
    return AnswerToFirst(event, Verdict(), std::move(answer));
  }
  Event told = event;
  told.answer_kept = true;
  told.answer = std::move(*response);
  return Replay(context, principal, told, origin);
}

Task<std::optional<Outcome>> IdempotencyFilter::AfterJoin(RequestContext& context, const Call& call,
                                                          Event running) {
  Result<std::optional<Event>> joined = co_await Join(context, running, call.hold_until);
  // Whatever ends the wait without an event, the call that was joined goes on.
  if (!joined || !*joined) co_return Replay(context, call.principal, running);
  Event event = std::move(**joined);
  if (auto first = FirstTelling(context, call.principal, event)) co_return std::move(first);
  if (event.phase == Phase::kUncertain) {
    co_return co_await Settle(context, call, std::move(event));
  }
  // A new attempt has begun, or may begin: only the ledger can say which.
  if (event.phase == Phase::kDispatching || event.phase == Phase::kProvenAbsent) {
    co_return std::nullopt;
  }
  if (MayStandNoMore(event)) {
    if (event.stands.kind != WriteKind::kPost && event.stands.kind != WriteKind::kCall) {
      co_return std::nullopt;
    }
    // Whoever waited for it has part in its one effect, and makes no other.
    if (IsSuperseded(event) && MaySee(call.principal, event)) {
      co_return LocalOutcome(MakeProblem(ErrorCode::kSuperseded,
                                         EarlierCallDetail(ErrorCode::kSuperseded, event),
                                         FactsOfEvent(event)));
    }
  }
  co_return Replay(context, call.principal, event);
}

Task<std::optional<Outcome>> IdempotencyFilter::Hold(RequestContext& context, const Call& call,
                                                     Begun& begun) {
  if (begun.commit) {
    const Result<void> durable = co_await begun.commit->Durable();
    if (!durable) co_return LedgerRefusal(durable.error(), Delivery::kNotSent);
    parts_.approving.Watch(begun.event);
  }
  // Whoever carries out an approval waits for nobody.
  if (context.approved != 0) co_return Replay(context, call.principal, begun.event);
  Result<std::optional<Event>> joined = co_await Join(context, begun.event, call.approval_until);
  if (!joined || !*joined) {
    const std::string& secret = parts_.ledger_secret;
    const std::uint64_t operation = begun.event.operation;
    const std::string poll = std::string(kPollPath) + PollToken(secret, operation, context.caller) +
                             PollQuery(secret, operation, begun.event.key);
    co_return LocalOutcome(AnswerToHeld(begun.event, RuleOf(context), poll));
  }
  Event event = std::move(**joined);
  // Nobody was told before, unless it is a repeat that waited.
  const AnswerSource origin = begun.commit ? AnswerSource::kBackend : AnswerSource::kReplay;
  if (auto first = FirstTelling(context, call.principal, event, origin)) co_return std::move(first);
  if (event.phase == Phase::kUncertain) {
    co_return co_await Settle(context, call, std::move(event));
  }
  co_return Replay(context, call.principal, event, origin);
}

Task<std::optional<Outcome>> IdempotencyFilter::Settle(RequestContext& context, const Call& call,
                                                       Event uncertain) {
  if (!MaySee(call.principal, uncertain)) co_return LocalOutcome(AnswerToOthers(uncertain));
  if (uncertain.settle || uncertain.task) {
    parts_.settling.Watch(uncertain);
    const Waiting waiting(context);
    const Settled settled =
        co_await parts_.settling.SettleNow(uncertain.operation, call.hold_until, *context.executor);
    if (settled == Settled::kYes) co_return std::nullopt;
    if (settled == Settled::kLost) {
      ProblemFacts facts = FactsOfEvent(uncertain);
      AddUnknown(CanBeAsked::kNo, facts);
      co_return LocalOutcome(MakeProblem(ErrorCode::kOutcomeUnknown, kTaskIsLost, facts));
    }
  }
  co_return Replay(context, call.principal, uncertain);
}

}  // namespace recourse
