#include "proxy/mcp/mcp_write.h"

#include <functional>
#include <utility>

#include "filters/call/answers.h"
#include "filters/call/traceparent.h"
#include "filters/ledger/shared_view.h"
#include "filters/mcp/mcp_answer.h"
#include "filters/mcp/missing_tools.h"
#include "proxy/base/message_limits.h"
#include "proxy/exchange/request_facts.h"
#include "proxy/lanes/write_call.h"
#include "proxy/mcp/event_reply.h"
#include "proxy/mcp/mcp_read.h"

namespace recourse {

McpWrite::McpWrite(Exchange& exchange, CallClient& client, McpState& state, BodyReservation& room,
                   ReadPost post, std::string body, Headers headers)
    : exchange_(exchange),
      client_(client),
      request_(exchange.request),
      shared_(state),
      room_(room),
      message_(std::move(post.messages->front())),
      body_(std::move(body)),
      session_(SessionOf(headers)),
      principal_(request_.Asker(headers)),
      reading_(std::move(post.reading)),
      side_(ReadAgentSide(headers)),
      fields_(std::move(headers)) {
  const auto facts = shared_.tools.Find(ServerKeyOf(*request_.route.match.backend),
                                        request_.caller.name(), message_.tool);
  if (facts) side_.has_output_schema = facts->has_output_schema;
  side_.orders_flow = HasFlowOrder(request_.head);
}

StateScope McpWrite::Scope() const {
  return ScopeOfState(message_.tool, reading_->json, request_.caller.name(),
                      request_.route.match.backend->name);
}

Task<bool> McpWrite::Run(bool is_denied) {
  const RouteMatch& match = request_.route.match;
  request_.route.is_guarded =
      match.tool != nullptr || side_.orders_flow || match.unlisted == UnlistedRule::kGuard;
  if (IsOwnRequestState(message_.request_state)) {
    state_ = ReadRequestState(request_.services.install_secret, Scope(), message_.request_state,
                              request_.services.clock->WallNow());
  }
  if (auto refusal = Refusal(is_denied)) {
    request_.record.error = FactsOf(*refusal->error).slug;
    co_return co_await exchange_.reply.Send(AgentAnswer(message_, side_, std::move(*refusal)),
                                            request_.head.keep_alive);
  }
  co_return co_await Execute();
}

std::optional<WriteAnswer> McpWrite::Refusal(bool is_denied) {
  const std::string why_nobody = request_.caller.WhyNobody();
  if (request_.services.draining) {
    return MakeProblem(ErrorCode::kDraining, "this process is shutting down");
  }
  if (is_denied) {
    return MakeProblem(ErrorCode::kDenied,
                       "no tool of the policy matches this call, and unlisted calls are denied");
  }
  if (request_.route.is_guarded && !why_nobody.empty()) {
    return MakeProblem(ErrorCode::kCallerUnknown, why_nobody);
  }
  if (IsOwnRequestState(message_.request_state) && !state_) {
    return MakeProblem(ErrorCode::kMalformedRequest,
                       "its requestState is not of this call, or its time is over; make the "
                       "call without it");
  }
  return std::nullopt;
}

// In the modern protocol who gives a call up closes its connection, which comes to this process.
bool McpWrite::MayBeCanceledElsewhere() const {
  const bool has_group = dynamic_cast<SharedLedgerView*>(request_.services.ledger) != nullptr;
  return has_group && message_.era == McpEra::kLegacy;
}

void McpWrite::FillCall(RequestContext& context) {
  FillContext(request_, std::move(fields_), context);
  const ClientLink& link = MayBeCanceledElsewhere() ? static_cast<const ClientLink&>(unheard_)
                                                    : static_cast<const ClientLink&>(client_);
  context.waits.Begin(request_.services.clients, link);
  context.request.body = std::move(body_);
  context.reading = reading_;
  context.keeper = &room_;
  if (auto trace = ParseTraceparent(message_.traceparent); trace && context.span_id) {
    context.trace.trace_id = std::move(trace->trace_id);
    context.trace.from_client = true;
  }
  if (state_) Resume(context);
}

Task<bool> McpWrite::Execute() {
  Services& services = request_.services;
  RequestContext context;
  FillCall(context);
  auto id = ParseJson(message_.id);
  const std::string name = NameOfCall(request_.caller.name(), *request_.route.match.backend,
                                      session_, id ? *id : Json());
  CallsInFlight::Write running(shared_.calls, {name, principal_}, Content(), client_);
  co_await AwaitCancel(running);
  EventReply stream(exchange_.reply, request_.worker.thread.clock(), services.bounds.send_timeout);
  if (side_.takes_events) context.interim = &stream;

  auto outcome = co_await Next(request_.worker.chain)(context);
  const MonoTime decided = request_.Now();
  room_.LetGoOfRequest(context);
  WriteAnswer answer = room_.Fit(ToAnswer(std::move(outcome)));
  if (context.unknown != 0 && !session_.empty() && running.IsOnly()) {
    shared_.late.Add({name, context.unknown, context.unknown_attempt, context.unknown_key});
  }
  NoteWrite(request_, context, answer);
  request_.record.overhead = decided - request_.began - request_.record.with_backend;
  if (IsPending(answer)) side_.request_state = NextState(context);
  reading_.reset();
  const std::optional<ErrorCode> error = answer.error;
  const bool kept = co_await Answer(std::move(answer), stream);
  co_return co_await End(running, kept, error ? std::nullopt : context.answers);
}

// What is equal in a call and in its repeat, whatever trace and key they have. Calls that are taken
// for equal and are not wait for each other a little: no digest has to tell them apart for certain.
std::string McpWrite::Content() const {
  std::string content;
  if (!reading_) return content;
  for (const std::string_view part :
       {std::string_view(request_.caller.name()),
        std::string_view(request_.route.match.backend->name), std::string_view(message_.method),
        std::string_view(message_.tool)}) {
    AppendPart(content, part);
  }
  return content + std::to_string(std::hash<std::string>()(CanonicalJson(reading_->json)));
}

// A repeat may come before the word that the call it repeats was given up.
Task<void> McpWrite::AwaitCancel(const CallsInFlight::Write& running) {
  static constexpr Millis kLook{5};
  const MonoTime until = request_.Now() + limits::kRepeatOvertakes;
  while (running.HasTwin() && request_.Now() < until) {
    co_await request_.worker.thread.SleepUntil(request_.Now() + kLook);
  }
}

// As its first leg: the same key must come of it.
void McpWrite::Resume(RequestContext& context) const {
  std::string traceparent;
  if (!state_->trace_id.empty()) {
    SpanIdText parent;
    request_.worker.span_ids.Fill(parent);
    traceparent = "00-" + state_->trace_id + "-" + std::string(parent.view()) + "-01";
    SetHeader(context.request.headers, "traceparent", traceparent);
  } else {
    RemoveHeader(context.request.headers, "traceparent");
  }
  if (context.span_id) {
    context.trace.from_client = !state_->trace_id.empty();
    if (context.trace.from_client) context.trace.trace_id = state_->trace_id;
  }
  context.request.body = WithoutRequestState(std::move(context.request.body), traceparent);
  context.reading.reset();
}

// What a client of the modern protocol is to come back with; empty: it is told in words.
std::string McpWrite::NextState(const RequestContext& context) const {
  if (message_.era != McpEra::kModern || message_.kind != McpRequest::Kind::kToolCall) return {};
  RequestState next;
  if (state_) {
    next = *state_;
    if (++next.round > limits::kRoundsMax) return {};
  } else {
    const bool is_gated = context.tool != nullptr && context.tool->approval;
    const Millis life = is_gated ? context.tool->approval->expires : Millis(0);
    next.expires_ms = ToUnixMillis(request_.services.clock->WallNow() + life + limits::kStateLife);
    if (context.trace.from_client) next.trace_id = context.trace.trace_id;
  }
  return WriteRequestState(request_.services.install_secret, Scope(), next);
}

Task<bool> McpWrite::Answer(WriteAnswer answer, EventReply& stream) {
  RequestRecord& record = request_.record;
  bool kept = false;
  if (stream.has_begun()) {
    std::string message = AgentMessage(message_, side_, answer);
    if (message.empty()) {
      message = AgentError(message_.id, answer.response.status, "the server answered over HTTP");
    }
    record.status = 200;
    const bool sent = co_await stream.End(AsEvent(message));
    record.client_gone = !sent;
    if (!sent) exchange_.reply.Cut();
    kept = sent && exchange_.reply.keeps();
  } else {
    const HttpResponse response = AgentAnswer(message_, side_, std::move(answer));
    kept = co_await exchange_.reply.Send(response, request_.head.keep_alive);
  }
  co_return kept;
}

// A client that gives a call up does not heed its answer, though its connection takes it.
Task<bool> McpWrite::End(CallsInFlight::Write& running, bool kept,
                         std::optional<AttemptId> answers) {
  RequestRecord& record = request_.record;
  record.client_gone = record.client_gone || client_.has_given_up();
  // Nobody can tell whether it still heeds the answer. Forgetting that it has it errs towards
  // replay.
  const bool is_late = request_.Now() - request_.began >= limits::kPatienceMin;
  if (is_late && MayBeCanceledElsewhere()) answers.reset();
  co_return co_await EndWrite(exchange_, kept, answers, [&](ClientSide& side, AttemptId answered) {
    return running.Answered(answered, request_.Now(), [&] { side.MarkAnswered(answered); });
  });
}

}  // namespace recourse
