#include "filters/observe/observer.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "filters/call/codecs.h"
#include "filters/call/outcome.h"
#include "filters/flow_effect.h"
#include "filters/key/event_answer.h"
#include "filters/ledger/model/standing_notes.h"

namespace recourse {
namespace {

Digest Apart(const Digest& digest) {
  std::string text("recourse-observed-1");
  text.append(AsView(digest));
  return Sha256(text);
}

// "key-required: the tool x needs the header y".
std::string Words(const CallRefusal& refusal) {
  const std::string text(FactsOf(refusal.code()).slug);
  return refusal.detail().empty() ? text : text + ": " + refusal.detail();
}

bool WouldAskAHuman(const RequestContext& context, const CallBody& body) {
  return context.tool != nullptr && context.tool->approval &&
         NeedsApproval(*context.tool->approval, ValuesOfCall(context, body));
}

PreparedCall Unkeyed(const ObservedCall& call, const HmacKey& secret, Random& random,
                     ObserveVerdict verdict, std::string detail) {
  PreparedCall prepared = PrepareLoggedOnly(call.context, secret, random);
  prepared.operation.event.verdict = verdict;
  prepared.operation.event.detail = std::move(detail);
  prepared.operation.event.settle.reset();
  return prepared;
}

// The operation whose answer the client has now: a repeat that enforce would have answered counts
// as an answer to the first call.
std::optional<AttemptId> AnsweredBy(const Event& event, const Begun& begun) {
  switch (event.verdict) {
    case ObserveVerdict::kFresh:
    case ObserveVerdict::kWouldHold:
      return AttemptId::Of(event);
    case ObserveVerdict::kWouldReplay:
    case ObserveVerdict::kWouldJoin:
    case ObserveVerdict::kWouldResend:
      if (event.related == event.operation) return AttemptId::Of(event);
      return AttemptId{event.related, begun.related_attempt, begun.related_key};
    default:
      return std::nullopt;
  }
}

}  // namespace

DerivedKey ForObserving(DerivedKey key) {
  key.key = Apart(key.key);
  if (key.intent != Digest{}) key.intent = Apart(key.intent);
  return key;
}

PreparedCall Foretell(const ObservedCall& call, const HmacKey& secret, Random& random) {
  const RequestContext& context = call.context;
  std::optional<CallRefusal> refusal = call.refusal;
  if (!refusal && !call.is_whole) {
    return Unkeyed(call, secret, random, ObserveVerdict::kNotJudged,
                   "the arguments were not seen whole");
  }
  if (!refusal && !context.guarded) {
    return Unkeyed(call, secret, random, ObserveVerdict::kFresh, {});
  }
  if (!refusal) {
    PreparedCall prepared;
    const auto done = PrepareCall(context, secret, prepared);
    if (done) {
      prepared.key = ForObserving(std::move(prepared.key));
      Event& event = prepared.operation.event;
      event.key = prepared.key.key;
      if (event.intent != Digest{}) event.intent = prepared.key.intent;
      if (event.resource != Digest{}) event.resource = Apart(event.resource);
      for (auto* const marks : {&event.stands.leaves, &event.stands.ended_by}) {
        for (Mark& mark : *marks) {
          if (!IsNote(mark)) mark = MarkOf(Apart(AsDigest(mark)));
        }
      }
      event.settle.reset();
      prepared.operation.older.clear();      // nothing is observed under the keys of enforce
      prepared.operation.suspicion.reset();  // it is only foretold
      event.verdict = WouldAskAHuman(context, *prepared.body) ? ObserveVerdict::kWouldHold
                                                              : ObserveVerdict::kFresh;
      return prepared;
    }
    refusal = CallRefusal(done.error().code(), RefusalDetail(context, done.error()));
  }
  return Unkeyed(call, secret, random, ObserveVerdict::kWouldRefuse, Words(*refusal));
}

Transition Observer::Outcome(const ObservedCall& call, PreparedCall prepared,
                             const Event& begun) const {
  const Tool& tool = ToolOf(call.context);
  const Result<Answer>& result = call.result;
  std::optional<Json> body;
  const Backend* const backend = call.context.backend;
  if (result && ReadsAnswerBody(tool, backend)) body = ReadAnswerBody(*result);
  CallValues values = ValuesOfCall(call.context, *prepared.body);
  values.key = prepared.key.client_key.value_or(
      KeyText(KeyRuleOf(tool, *call.context.backend).form, begun.key));
  if (result) {
    values.answer_status = result->response.status;
    values.answer_headers = &result->response.headers;
    values.answer_body = body ? &*body : nullptr;
  }
  const Verdict verdict = ClassifyAttempt(begun, tool, *backend, result, values);
  Transition transition = MakeTransition(begun, verdict, tool, result, values);
  // Nothing of it is ever sent or told again.
  transition.answer_kept = false;
  transition.answer = HttpResponse();
  transition.undo.reset();
  if (!begun.detail.empty()) {
    transition.detail = begun.detail + (transition.detail.empty() ? "" : "; ") + transition.detail;
  }
  return transition;
}

Task<PreparedCall> Observer::ForetellApart(const ObservedCall& call) {
  PreparedCall prepared;
  const bool has_run = co_await call.context.keeper->RunApart(
      [&] { prepared = Foretell(call, secret_, random_); }, *call.context.executor);
  if (!has_run) {
    prepared =
        Unkeyed(call, secret_, random_, ObserveVerdict::kNotJudged, std::string(kNoRoomApart));
  }
  co_return prepared;
}

Task<Result<void>> Observer::Watch(ObservedCall& call) {
  PreparedCall prepared =
      IsLarge(call.context) ? co_await ForetellApart(call) : Foretell(call, secret_, random_);
  if (IsFenced(prepared.operation.event)) {
    prepared = Unkeyed(call, secret_, random_, ObserveVerdict::kWouldRefuse,
                       std::string(FactsOf(ErrorCode::kFlowClosed).slug) +
                           ": an earlier write broke its flow, which enforce would have undone");
  }
  call.context.shares_flow = prepared.shares_flow;
  const Event& event = prepared.operation.event;
  call.place = order_.Arrive(event.intent != Digest{} ? event.intent : event.key);
  if (call.ended.is_set()) order_.Ended(*call.place);
  Result<void> done = co_await Record(call, std::move(prepared));
  order_.Recorded(call.place);
  co_return done;
}

void Observer::End(ObservedCall& call) {
  if (call.place) order_.Ended(*call.place);
  call.ended.Set(true);
}

void Observer::Compare(const ObservedCall& call, const CallBody& body, const Event& begun) {
  const bool is_refused = begun.verdict == ObserveVerdict::kWouldRefuse && begun.related == 0;
  if (!call.context.guarded || is_refused || begun.verdict == ObserveVerdict::kNotJudged) return;
  CallFields fields = FieldsOfCall(call.context, body, secret_);
  if (begun.related != 0) differences_.Compare(call.context.tool_name, begun.related, fields);
  differences_.Keep(begun.operation, std::move(fields));
}

bool Observer::IsFenced(const Event& event) const {
  const bool would_be_sent =
      event.verdict == ObserveVerdict::kFresh || event.verdict == ObserveVerdict::kWouldHold;
  return would_be_sent && event.is_step && broken_flows_.Has(event.caller, event.flow);
}

void Observer::NoteFlow(const ObservedCall& call, const Event& begun, Phase outcome) {
  const bool was_sent = begun.verdict == ObserveVerdict::kFresh ||
                        begun.verdict == ObserveVerdict::kWouldHold ||
                        begun.verdict == ObserveVerdict::kWouldResend;
  if (!was_sent || !begun.is_step || call.context.tool == nullptr) return;
  const auto effect = FlowEffectOf(*call.context.policy, *call.context.tool, outcome);
  if (effect && effect->to == FlowPhase::kBreaking) broken_flows_.Add(begun.caller, begun.flow);
}

Task<Result<void>> Observer::Record(ObservedCall& call, PreparedCall prepared) {
  Executor& executor = *call.context.executor;
  co_await order_.MyTurn(call.place, executor);
  // A copy: the outcome is judged with what the ledger was asked.
  const Result<Begun> begun = co_await ledger_.Begin(prepared.operation, executor);
  if (begun) {
    call.verdict = begun->event.verdict;
    if (call.verdict == ObserveVerdict::kWouldRefuse) call.reason = begun->event.detail;
    call.event = begun->event.id;
    Compare(call, *prepared.body, begun->event);
  }
  co_await call.ended.Wait();
  if (!begun) co_return std::unexpected(begun.error());
  if (call.result && IsEndpointMessage(*call.context.backend, call.context.request)) {
    const Codec& codec = CodecOf(*call.context.backend);
    call.result = codec.ReadRecorded(std::move(*call.result), call.context.request);
  }
  if (call.result) {
    call.result->body_complete = call.result->body_complete || EndsByItself(*call.result);
  }
  Transition outcome = Outcome(call, std::move(prepared), begun->event);
  NoteFlow(call, begun->event, outcome.to);
  const Result<Event> recorded = co_await ledger_.Record(std::move(outcome), executor);
  if (!recorded) co_return std::unexpected(recorded.error());
  call.event = recorded->id;
  const auto answered = AnsweredBy(*recorded, *begun);
  if (call.is_delivered && answered && IsFinalWord(*recorded)) ledger_.MarkAnswered(*answered);
  co_return Result<void>();
}

}  // namespace recourse
