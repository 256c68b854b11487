#include "filters/idempotency/idempotency_filter.h"

#include <algorithm>
#include <array>

#include "filters/answers.h"
#include "filters/idempotency/event_answer.h"
#include "filters/key_text.h"
#include "proxy/base/crash_point.h"

namespace recourse {
namespace {

const Tool& ToolOf(const RequestContext& context) {
  return context.tool == nullptr ? UnlistedTool() : *context.tool;
}

Outcome Local(WriteAnswer answer) {
  Outcome outcome;
  outcome.local = std::move(answer);
  return outcome;
}

Outcome Replay(RequestContext& context, const Event& event) {
  WriteAnswer answer = AnswerToRepeat(event);
  context.replayed = !answer.error;
  if (context.replayed && IsFinalWord(event)) context.operation = event.operation;
  return Local(std::move(answer));
}

// Answers about an operation that no state of it gives; nullopt: its state is the answer.
std::optional<ErrorCode> RefusalOf(const Begun& begun) {
  switch (begun.kind) {
    case Begun::Kind::kConflict:
      return ErrorCode::kKeyReused;
    case Begun::Kind::kSuspected:
      return ErrorCode::kSuspectedDuplicate;
    case Begun::Kind::kCompensated:
      return ErrorCode::kCompensated;
    case Begun::Kind::kExpired:
      return ErrorCode::kKeyExpired;
    default:
      return std::nullopt;
  }
}

// Says which earlier call stands in the way.
std::string RefusalDetail(ErrorCode refusal, const Event& earlier) {
  const std::string call =
      earlier.method + " " + earlier.path + " (event " + std::to_string(earlier.operation) + ")";
  switch (refusal) {
    case ErrorCode::kKeyReused:
      return "this key belongs to an earlier call, " + call + ", with other arguments";
    case ErrorCode::kSuspectedDuplicate:
      return "this looks like a repeat of " + call + ", and the policy lets a human judge that";
    case ErrorCode::kCompensated:
      return "the effect of " + call + " was undone";
    default:
      return "the answer to " + call + " is no longer kept";
  }
}

Outcome Refusal(const RequestContext& context, const Error& error) {
  std::string detail(error.detail());
  if (error.code() == ErrorCode::kKeyRequired) {
    detail = "the tool " + context.tool_name + " needs " + ScopeRequirement(ToolOf(context).scope) +
             ", which the call does not carry";
  }
  return Local(MakeProblem(error.code(), detail));
}

bool IsResend(const Event& dispatching) { return dispatching.cause == Cause::kResend; }

// The ledger refuses. What may have been sent earlier must not be told as not executed.
Outcome LedgerRefusal(const Error& error, Delivery delivery) {
  ProblemFacts facts;
  if (delivery != Delivery::kNotSent) facts.speaks_for = ErrorCode::kOutcomeUnknown;
  return Local(MakeProblem(error.code(), error.detail(), facts));
}

// The same after an attempt that sent nothing.
Outcome UnsentRefusal(const Error& error, const Event& dispatching) {
  return LedgerRefusal(error, IsResend(dispatching) ? Delivery::kUncertain : Delivery::kNotSent);
}

// The flow that the agent names, else the trace.
Result<std::string> FlowOf(const RequestContext& context) {
  const std::string* named = FindHeader(context.request.headers, "Recourse-Flow");
  if (named == nullptr) return context.trace.trace_id;
  const bool is_visible =
      std::all_of(named->begin(), named->end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (named->empty() || named->size() > limits::kFlowNameBytesMax || !is_visible) {
    return std::unexpected(
        Error(ErrorCode::kMalformedRequest, "Recourse-Flow is 1 to 128 visible ASCII characters"));
  }
  return *named;
}

CallValues WithAnswer(CallValues values, const Result<Answer>& result,
                      const std::optional<Json>& body) {
  if (!result) return values;
  values.answer_status = result->response.status;
  values.answer_headers = &result->response.headers;
  values.answer_body = body ? &*body : nullptr;
  return values;
}

void FillEvent(const RequestContext& context, const DerivedKey& key, Event& event) {
  event.key = key.key;
  if (key.spans_traces || key.is_windowed) event.intent = key.intent;
  event.args_hash = key.args_hash;
  event.tool = context.tool_name;
  event.backend = context.backend->name;
  event.caller = context.caller;
  event.trace_id = context.trace.trace_id;
  event.policy_version = context.policy == nullptr ? std::string() : context.policy->version;
  event.method = context.request.method;
  event.path = context.path;
}

void AddProbe(const Tool& tool, CallValues values, const DerivedKey& key, Event& event) {
  if (!tool.settle) return;
  values.key = key.client_key.value_or(KeyPlaceholder());
  auto probe = Render(tool.settle->request, values);
  if (probe) {
    event.settle = std::move(*probe);
  } else {
    event.detail = "the settle request cannot be made: ";
    event.detail += probe.error().detail();
  }
}

}  // namespace

DerivedKey IdempotencyFilter::LoggedOnlyKey(const KeyInputs& inputs) {
  std::array<unsigned char, 32> nonce{};
  parts_.random.Fill(nonce);
  return UniqueKey(inputs, std::string(reinterpret_cast<const char*>(nonce.data()), nonce.size()));
}

Result<void> IdempotencyFilter::Prepare(const RequestContext& context, Call& call) {
  const Tool& tool = ToolOf(context);
  const bool is_logged_only = IsLoggedOnly(context);
  auto body = is_logged_only ? Result<CallBody>(RawCallBody(context.request))
                             : ReadCallBody(context.request);
  if (!body) return std::unexpected(body.error());
  call.body = std::move(*body);
  const KeyInputs inputs{
      parts_.install_secret, tool,         context.tool_name, context.caller, context.trace,
      context.request,       context.path, context.captures,  context.query,  call.body};
  auto key = is_logged_only ? Result<DerivedKey>(LoggedOnlyKey(inputs)) : DeriveKey(inputs);
  if (!key) return std::unexpected(key.error());
  auto flow = FlowOf(context);
  if (!flow && !is_logged_only) return std::unexpected(flow.error());
  call.key = std::move(*key);
  call.hold_until = parts_.clock.Now() + tool.hold;

  NewOperation& operation = call.operation;
  FillEvent(context, call.key, operation.event);
  operation.event.flow = flow ? std::move(*flow) : context.trace.trace_id;
  AddProbe(tool, ValuesOfCall(context, call.body), call.key, operation.event);
  if (call.key.is_windowed) {
    operation.dedupe_window = tool.dedupe_window;
    operation.event.window_ms = tool.dedupe_window.count();
  }
  operation.across_traces = call.key.spans_traces ? tool.across_traces : AcrossTraces::kNever;
  operation.on_mismatch = tool.on_mismatch;
  operation.failed_ttl = tool.failed_ttl;
  operation.may_resend = !is_logged_only && !context.backend->key_header.empty();
  operation.attempts_max = limits::kAttemptsPerOperationMax;
  return {};
}

Task<Result<Outcome>> IdempotencyFilter::Handle(RequestContext& context, Next next) {
  Call call;
  if (const auto prepared = Prepare(context, call); !prepared) {
    co_return Refusal(context, prepared.error());
  }
  Event last;
  for (int look = 0; look < limits::kLedgerLooksMax; ++look) {
    Result<Begun> begun = co_await parts_.ledger.Begin(call.operation, *context.executor);
    if (!begun) co_return LedgerRefusal(begun.error(), begun.error().delivery());
    last = begun->event;
    if (begun->kind == Begun::Kind::kFresh) {
      co_return co_await RunAttempt(context, next, call, std::move(*begun));
    }
    std::optional<Outcome> answer = co_await Repeat(context, call, std::move(*begun));
    if (answer) co_return std::move(*answer);
  }
  co_return Local(
      MakeProblem(ErrorCode::kInProgress, "the same call is being worked on", FactsOfEvent(last)));
}

Task<Outcome> IdempotencyFilter::RunAttempt(RequestContext& context, Next next, const Call& call,
                                            Begun begun) {
  RC_CRASH_POINT("k02");
  context.commit = begun.commit;
  context.upstream_key = call.key.client_key.value_or(ToHex(begun.event.key));
  Result<Outcome> outcome = co_await next(context);
  context.commit.reset();
  if (!outcome && outcome.error().code() == ErrorCode::kLedgerUnavailable) {
    // Nothing was sent, and the ledger takes no more words about it.
    co_return UnsentRefusal(outcome.error(), begun.event);
  }
  if (outcome && outcome->local) {
    co_return co_await GiveBack(context, std::move(begun.event), std::move(*outcome));
  }
  if (!outcome) {
    co_return co_await Conclude(context, call, std::move(begun.event),
                                std::unexpected(outcome.error()));
  }
  RC_CRASH_POINT("k10");
  co_return co_await Conclude(context, call, std::move(begun.event), std::move(outcome->answer));
}

Task<Outcome> IdempotencyFilter::GiveBack(RequestContext& context, Event dispatching,
                                          Outcome refusal) {
  Transition transition;
  transition.operation = dispatching.operation;
  transition.attempt = dispatching.attempt;
  transition.to = IsResend(dispatching) ? Phase::kUncertain : Phase::kNotSent;
  transition.cause = Cause::kCanceled;
  transition.detail = "a later filter answered; nothing was sent";
  const Result<Event> recorded =
      co_await parts_.ledger.Record(std::move(transition), *context.executor);
  if (!recorded) co_return UnsentRefusal(recorded.error(), dispatching);
  co_return refusal;
}

Task<Outcome> IdempotencyFilter::Conclude(RequestContext& context, const Call& call,
                                          Event dispatching, Result<Answer> result) {
  const Tool& tool = ToolOf(context);
  if (result) {
    StripOwnFields(result->response.headers);
    result->body_complete = result->body_complete || EndsByItself(*result);
  }
  const std::optional<Json> body =
      result && ReadsAnswerBody(tool) ? ReadAnswerBody(*result) : std::nullopt;
  CallValues values = WithAnswer(ValuesOfCall(context, call.body), result, body);
  values.key = context.upstream_key;
  Verdict verdict = IsLoggedOnly(context) ? ClassifyLoggedOnly(tool, result, values)
                                          : Classify(tool, result, values);
  if (IsResend(dispatching)) verdict = OfResend(std::move(verdict));
  Result<Event> recorded = co_await parts_.ledger.Record(
      MakeTransition(dispatching, verdict, tool, result, values), *context.executor);
  if (!recorded) {
    // What happened at the backend is not remembered, so nobody may build on it.
    ProblemFacts facts = FactsOfEvent(dispatching);
    if (verdict.phase != Phase::kNotSent) facts.speaks_for = ErrorCode::kOutcomeUnknown;
    co_return Local(MakeProblem(ErrorCode::kLedgerUnavailable,
                                "the outcome of the call could not be written to the event log",
                                facts));
  }
  RC_CRASH_POINT("k12");
  if (recorded->phase == Phase::kUncertain) parts_.settling.Watch(*recorded);
  Outcome outcome = AnswerToFirst(*recorded, verdict, result ? std::move(*result) : Answer());
  if (!outcome.local && IsFinalWord(*recorded)) context.operation = recorded->operation;
  co_return outcome;
}

Task<std::optional<Outcome>> IdempotencyFilter::Repeat(RequestContext& context, const Call& call,
                                                       Begun begun) {
  if (begun.kind == Begun::Kind::kRunning) {
    co_return co_await AfterJoin(context, call, std::move(begun.event));
  }
  if (begun.kind == Begun::Kind::kUnknown) {
    co_return co_await Settle(context, call, std::move(begun.event));
  }
  if (const std::optional<ErrorCode> refusal = RefusalOf(begun)) {
    co_return Local(
        MakeProblem(*refusal, RefusalDetail(*refusal, begun.event), FactsOfEvent(begun.event)));
  }
  co_return Replay(context, begun.event);
}

Task<std::optional<Outcome>> IdempotencyFilter::AfterJoin(RequestContext& context, const Call& call,
                                                          Event running) {
  Result<std::optional<Event>> joined =
      co_await parts_.ledger.Join(running.operation, call.hold_until, *context.executor);
  // Whatever ends the wait without an event, the call that was joined goes on.
  if (!joined || !*joined) co_return Replay(context, running);
  Event event = std::move(**joined);
  if (event.phase == Phase::kUncertain) {
    co_return co_await Settle(context, call, std::move(event));
  }
  // A new attempt has begun, or may begin: only the ledger can say which.
  if (event.phase == Phase::kDispatching || event.phase == Phase::kProvenAbsent) {
    co_return std::nullopt;
  }
  co_return Replay(context, event);
}

Task<std::optional<Outcome>> IdempotencyFilter::Settle(RequestContext& context, const Call& call,
                                                       Event uncertain) {
  if (uncertain.settle) {
    parts_.settling.Watch(uncertain);
    const bool is_settled =
        co_await parts_.settling.SettleNow(uncertain.operation, call.hold_until, *context.executor);
    if (is_settled) co_return std::nullopt;
  }
  co_return Replay(context, uncertain);
}

}  // namespace recourse
