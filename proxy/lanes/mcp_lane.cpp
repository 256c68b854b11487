// The endpoint of an MCP server: the body says what a call is. Reads take the read lane with their
// body at hand, writes the filter chain; what that answers is told as JSON-RPC.
#include "filters/call/answers.h"
#include "filters/call/traceparent.h"
#include "filters/mcp/mcp_answer.h"
#include "filters/mcp/mcp_decision.h"
#include "filters/mcp/missing_tools.h"
#include "filters/mcp/request_state.h"
#include "policy/model/mcp_names.h"
#include "policy/model/route_table.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/log/log.h"
#include "proxy/base/mcp_limits.h"
#include "proxy/exchange/head_judgement.h"
#include "proxy/exchange/held.h"
#include "proxy/exchange/mcp_read.h"
#include "proxy/exchange/observation.h"
#include "proxy/exchange/read_exchange.h"
#include "proxy/exchange/request_head.h"
#include "proxy/lanes/agent_stream.h"

namespace recourse {
namespace {

constexpr std::string_view kCancel = "notifications/cancelled";
constexpr int kInvalidRequest = -32600;

// A call as its client's session names it. `id` is JSON.
std::string NameOfCall(std::string_view caller, const Backend& backend, std::string_view session,
                       const Json& id) {
  std::string name;
  AppendPart(name, caller);
  AppendPart(name, backend.name);
  AppendPart(name, session);
  AppendPart(name, id.kind == Json::Kind::kString ? "text" : "number");
  AppendPart(name, id.text);
  return name;
}

bool Cancels(const McpRequest& request) { return request.method == kCancel; }

// The call that a cancellation is about, also one that is a batch by itself; null: it names none.
Json CanceledCall(std::string_view body) {
  const auto message = ParseJson(body);
  if (!message) return Json();
  const bool is_batch = message->kind == Json::Kind::kArray;
  const Json* const id =
      AtPointer(*message, is_batch ? "/0/params/requestId" : "/params/requestId");
  return id == nullptr ? Json() : *id;
}

HttpResponse RefusalAnswer(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.headers.emplace_back("Content-Type", "application/json");
  response.body = std::move(body);
  return response;
}

// A write may be answered from the log, which must not say yes to what the server refuses.
std::optional<McpRefusal> RefusalOfCall(const McpDecision& decision, const Headers& headers,
                                        const McpRequest& request) {
  if (!decision.objection.empty()) {
    return McpRefusal{400, kInvalidRequest, decision.objection, request.id};
  }
  if (decision.effect == Effect::kRead) return std::nullopt;
  return RefusalOfFields(headers, request);
}

// What the server compresses, nobody here can look into.
void AskForPlain(Head& head) {
  for (std::size_t i = 0; i < head.field_count; ++i) {
    Field& field = head.fields[i];
    field.hop = field.hop || EqualsIgnoreCase(field.name, "Accept-Encoding");
  }
}

}  // namespace

// The query is a view of the head.
Task<bool> Session::ServeMcp(const Backend& backend, std::string_view query) {
  RouteMatch match;
  match.backend = &backend;
  match.path = match.sent = backend.mcp_path;
  match.effect = Effect::kRead;
  if (auto refusal = RefusalAtEndpoint(*view_->policy, head_, query)) {
    const bool has_other_methods = refusal->code() == ErrorCode::kMethodNotAllowed;
    co_return co_await Refuse(refusal->code(), refusal->detail(),
                              has_other_methods ? "GET, HEAD, POST, DELETE, OPTIONS" : "");
  }
  if (head_.method == "POST") {
    // Reading the body overwrites the head, and what it says is needed after that.
    head_copy_.assign(in_.unread().substr(0, head_.size));
    const std::string asked(query);
    RC_CHECK(ParseRequestHead(head_copy_, head_).state == ParseState::kComplete);
    co_return co_await ServeMcpPost(std::move(match), asked);
  }
  // Some servers take a body for a message whatever the method says.
  if (HasBody(head_)) {
    co_return co_await Refuse(
        ErrorCode::kMalformedRequest,
        "a " + std::string(head_.method) + " to an MCP endpoint may not have a body");
  }
  if (HasFlowOrder(head_)) {
    record_.effect = "write";
    co_return co_await ServeWrite(match, query, /*guarded=*/true);
  }
  record_.effect = "read";
  co_return co_await ServeMcpStream(match, query);
}

Task<bool> Session::ServeMcpStream(const RouteMatch& match, std::string_view query) {
  if (head_.method == "GET" && !services_.mcp_late.empty()) {
    const Headers headers = EndToEndFields(head_);
    std::string session = McpRead::SessionOf(headers);
    if (!session.empty() && FindHeader(headers, "Last-Event-ID") != nullptr) {
      late_ = std::make_unique<LateTap>(std::move(session));
    }
  }
  const bool kept = co_await RelayRead(match, query);
  late_.reset();
  co_return kept;
}

// The answer to a call of unknown outcome may be among what its client fetches by itself.
void Session::TakeLate(const Backend& backend, std::string_view piece) {
  late_->events.Feed(piece);
  while (auto event = late_->events.Next()) {
    const auto message = event->data.empty() ? Result<Json>(Json()) : ParseJson(event->data);
    const Json* const id = message && IsMcpResponse(*message, "") ? message->Find("id") : nullptr;
    if (id == nullptr) continue;
    const auto call = services_.mcp_late.Only(NameOfCall(caller_, backend, late_->session, *id));
    if (call.operation == 0) continue;
    services_.settling->Tell(
        {.operation = call.operation, .attempt = call.attempt, .message = std::move(event->data)});
  }
}

Task<bool> Session::ServeMcpPost(RouteMatch match, std::string query) {
  if (head_.body == BodyKind::kLength && head_.content_length > limits::kWriteBodyBytesMax) {
    co_return co_await RefuseMcp(ErrorCode::kRequestTooLarge,
                                 "the body of an MCP message may have at most 8 MiB");
  }
  Held held(services_, Payer(), *this);
  auto body = co_await ReadWriteBody(held);
  if (cut_) co_return false;
  if (!body) {
    linger_ = true;
    co_return co_await RefuseMcp(body.error().code(), std::string(body.error().detail()));
  }
  if (in_.begin == in_.end) in_.memory.reset();
  record_.bytes_in += head_.size + body->size();
  const Headers headers = EndToEndFields(head_);
  auto requests = ReadMcpRequest(headers, *body);
  if (requests && requests->size() > 1 && std::ranges::any_of(*requests, Cancels)) {
    requests = std::unexpected(
        McpRefusal{400, kInvalidRequest, "a batch must not cancel a call: send it alone"});
  }
  if (!requests) {
    record_.error = FactsOf(ErrorCode::kMalformedRequest).slug;
    co_return co_await SendAnswer(
        RefusalAnswer(requests.error().status, RefusalBody(requests.error())), head_.keep_alive);
  }
  if (body->size() >= limits::kLargeBodyBytes) co_await NextTurn(worker_.thread);
  const McpRequest& first = requests->front();
  record_.rpc = McpMethodLabel(first.method);
  if (requests->size() == 1 && Cancels(first) &&
      services_.mcp_calls.Has(
          NameOfCall(caller_, *match.backend, McpRead::SessionOf(headers), CanceledCall(*body)))) {
    // A write that runs is not stopped half-way: its outcome would be unknown.
    record_.decision = "held-back";
    HttpResponse accepted;
    accepted.status = 202;
    co_return co_await SendAnswer(accepted, head_.keep_alive);
  }
  NoteIds(*match.backend, McpRead::SessionOf(headers), *requests);
  const auto decision = DecideMcpCall(*match.backend, *requests);
  if (const auto refusal = RefusalOfCall(decision, headers, first)) {
    record_.error = FactsOf(ErrorCode::kMalformedRequest).slug;
    co_return co_await SendAnswer(RefusalAnswer(refusal->status, RefusalBody(*refusal)),
                                  head_.keep_alive);
  }
  match.tool = decision.tool;
  match.effect = HasFlowOrder(head_) ? Effect::kWrite : decision.effect;
  match.unlisted = decision.unlisted;
  NoteMcp(match, first);
  if (match.effect == Effect::kWrite || decision.is_denied) {
    if (!held.BeginWrite()) {
      services_.metrics->rejections.Add({{"reason", "writes"}}).Increment();
      co_return co_await RefuseMcp(ErrorCode::kOverloaded, "too many calls are being worked on");
    }
    McpWrite write{std::move(requests->front()), std::move(*body), headers, held,
                   decision.is_denied};
    co_return co_await ServeMcpWrite(std::move(match), std::move(query), std::move(write));
  }
  sends_once_ = decision.passes_once;
  AskForPlain(head_);
  McpRead read(std::move(*requests), std::move(*body), headers, held);
  co_return co_await RelayRead(match, query, &read);
}

// From here on an answer with one of these ids may be another request's than that of a call before.
void Session::NoteIds(const Backend& backend, const std::string& session,
                      const std::vector<McpRequest>& requests) {
  if (session.empty()) return;
  for (const McpRequest& request : requests) {
    if (request.id.empty() || request.method.empty()) continue;
    const auto id = ParseJson(request.id);
    if (!id) continue;
    const std::string name = NameOfCall(caller_, backend, session, *id);
    services_.mcp_calls.Note(name);
    services_.mcp_late.Forget(name);
  }
}

McpDecision Session::DecideMcpCall(const Backend& backend,
                                   const std::vector<McpRequest>& requests) {
  std::optional<ToolFacts> facts;
  // What was told to somebody else, nobody else believes.
  if (backend.trust_annotations && who_.problem.empty() &&
      requests.front().kind == McpRequest::Kind::kToolCall) {
    facts = services_.mcp_tools.Find(BookOf(backend), caller_, requests.front().tool);
  }
  return DecideMcp(*view_->policy, backend, requests, facts);
}

void Session::NoteMcp(const RouteMatch& match, const McpRequest& request) {
  record_.rpc = McpMethodLabel(request.method);
  record_.tool = match.tool;
  record_.effect = match.effect == Effect::kRead ? "read" : "write";
  if (request.kind != McpRequest::Kind::kToolCall) return;
  record_.mcp_tool = ShownMcpName(request.tool);
  if (match.tool == nullptr) {
    worker_.unlisted.Count(*match.backend, match.effect, request.method, request.tool);
  }
}

Task<bool> Session::RefuseMcp(ErrorCode code, std::string detail) {
  record_.error = FactsOf(code).slug;
  co_return co_await AnswerHere(AgentRefusal(MakeProblem(code, detail)), !EndsConnection(code));
}

Task<bool> Session::ServeMcpWrite(RouteMatch match, std::string query, McpWrite write) {
  const McpRequest& request = write.request;
  auto reading = std::make_shared<const CallBody>(TakeReading(write.request, write.body));
  const auto scope = [&] {
    return ScopeOfState(request.tool, reading->json, caller_, match.backend->name);
  };
  AgentSide side = ReadAgentSide(write.headers);
  if (const auto facts = services_.mcp_tools.Find(BookOf(*match.backend), caller_, request.tool)) {
    side.has_output_schema = facts->has_output_schema;
  }
  side.orders_flow = HasFlowOrder(head_);
  const bool keep = head_.keep_alive;
  std::optional<RequestState> state;
  const bool is_ours = IsOwnRequestState(request.request_state);
  if (is_ours) {
    state = ReadRequestState(services_.install_secret, scope(), request.request_state,
                             services_.clock->WallNow());
  }
  const bool is_guarded =
      match.tool != nullptr || side.orders_flow || match.unlisted == UnlistedRule::kGuard;
  const std::string why_nobody = WhyNobody();
  std::optional<WriteAnswer> refusal;
  if (services_.draining) {
    refusal = MakeProblem(ErrorCode::kDraining, "this process is shutting down");
  } else if (write.is_denied) {
    refusal = MakeProblem(ErrorCode::kDenied,
                          "no tool of the policy matches this call, and unlisted calls are denied");
  } else if (is_guarded && !why_nobody.empty()) {
    refusal = MakeProblem(ErrorCode::kCallerUnknown, why_nobody);
  } else if (is_ours && !state) {
    refusal = MakeProblem(ErrorCode::kMalformedRequest,
                          "its requestState is not of this call, or its time is over; make the "
                          "call without it");
  }
  if (refusal) {
    record_.error = FactsOf(*refusal->error).slug;
    co_return co_await SendAnswer(AgentAnswer(request, side, std::move(*refusal)), keep);
  }
  RequestContext context;
  FillContext(match, query, is_guarded, context);
  context.waits.Begin(services_.clients, *this);
  context.request.body = std::move(write.body);
  context.reading = reading;
  context.keeper = &write.held;
  if (auto trace = ParseTraceparent(request.traceparent); trace && context.span_id) {
    context.trace.trace_id = std::move(trace->trace_id);
    context.trace.from_client = true;
  }
  if (state) Resume(*state, context);
  auto id = ParseJson(request.id);
  const std::string session = McpRead::SessionOf(write.headers);
  const std::string name = NameOfCall(caller_, *match.backend, session, id ? *id : Json());
  const CallsInFlight::Entry running(services_.mcp_calls, name);
  AgentStream stream(client_, worker_.thread.clock(),
                     {services_.bounds.send_timeout, head_.minor == 1, keep && !IsLast()});
  if (side.takes_events) context.interim = &stream;

  auto outcome = co_await Next(worker_.chain)(context);
  const MonoTime decided = Now();
  write.held.LetGoOfRequest(context);
  WriteAnswer answer = write.held.Fit(ToAnswer(std::move(outcome)));
  if (context.unknown != 0 && !session.empty() && running.IsOnly()) {
    services_.mcp_late.Add({name, context.unknown, context.unknown_attempt});
  }
  NoteWrite(context, answer);
  record_.overhead = decided - started_ - record_.with_backend;
  if (IsPending(answer)) side.request_state = NextState(request, scope(), state, context);
  reading.reset();
  co_return co_await AnswerMcpWrite(request, side, std::move(answer), context.answers, stream);
}

// As its first leg: the same key must come of it.
void Session::Resume(const RequestState& state, RequestContext& context) {
  std::string traceparent;
  if (!state.trace_id.empty()) {
    SpanIdText parent;
    worker_.span_ids.Fill(parent);
    traceparent = "00-" + state.trace_id + "-" + std::string(parent.view()) + "-01";
    SetHeader(context.request.headers, "traceparent", traceparent);
  } else {
    RemoveHeader(context.request.headers, "traceparent");
  }
  if (context.span_id) {
    context.trace.from_client = !state.trace_id.empty();
    if (context.trace.from_client) context.trace.trace_id = state.trace_id;
  }
  context.request.body = WithoutRequestState(std::move(context.request.body), traceparent);
  context.reading.reset();
}

// What a client of the modern protocol is to come back with; empty: it is told in words.
std::string Session::NextState(const McpRequest& request, const StateScope& scope,
                               const std::optional<RequestState>& last,
                               const RequestContext& context) {
  if (request.era != McpEra::kModern || request.kind != McpRequest::Kind::kToolCall) return {};
  RequestState next;
  if (last) {
    next = *last;
    if (++next.round > limits::kMcpRoundsMax) return {};
  } else {
    const bool is_gated = context.tool != nullptr && context.tool->approval;
    const Millis life = is_gated ? context.tool->approval->expires : Millis(0);
    next.expires_ms = ToUnixMillis(services_.clock->WallNow() + life + limits::kMcpStateLife);
    if (context.trace.from_client) next.trace_id = context.trace.trace_id;
  }
  return WriteRequestState(services_.install_secret, scope, next);
}

Task<bool> Session::AnswerMcpWrite(const McpRequest& request, const AgentSide& side,
                                   WriteAnswer answer, std::optional<AttemptId> answers,
                                   AgentStream& stream) {
  const bool is_final = answers && !answer.error;
  bool kept = false;
  if (stream.has_begun()) {
    std::string message = AgentMessage(request, side, answer);
    if (message.empty()) {
      message = AgentError(request.id, answer.response.status, "the server answered over HTTP");
    }
    record_.status = 200;
    const bool is_last = IsLast() || !head_.keep_alive;
    const bool sent = co_await stream.End(AsEvent(message));
    record_.bytes_out += stream.bytes();
    record_.client_gone = !sent;
    cut_ = !sent;
    kept = sent && stream.keeps() && !is_last;
  } else {
    const HttpResponse response = AgentAnswer(request, side, std::move(answer));
    kept = co_await SendAnswer(response, head_.keep_alive);
  }
  record_.client_gone = record_.client_gone || !co_await HasTaken();
  if (is_final && !record_.client_gone) MarkAnswered(*answers);
  RC_CRASH_POINT("k14");
  co_return kept && !(record_.client_gone && HasLeft());
}

// What passes tells of tools, and of calls that became tasks.
void Session::Learn(McpRead& read, const Backend& backend) {
  for (RelayTap::OfTask& told : read.tap.TakeTasks()) {
    services_.settling->Tell({.backend = backend.name,
                              .caller = caller_,
                              .session = read.session,
                              .server = BookOf(backend),
                              .method = std::move(told.method),
                              .task = std::move(told.task),
                              .message = std::move(told.message)});
  }
  const std::vector<Json> lists = read.tap.TakeLists();
  for (const Json& list : lists) {
    for (const std::string& name : services_.mcp_tools.Learn(BookOf(backend), caller_, list)) {
      services_.metrics->mcp_tool_changes.Add({{"backend", backend.name}}).Increment();
      Log(LogLevel::kWarn,
          "an MCP server describes a tool in another way than before; what it says of it is not "
          "believed any more",
          {{"backend", backend.name}, {"tool", std::string_view(name).substr(0, 128)}});
    }
  }
  if (lists.empty()) return;
  for (const MissingTool& one : MissingTools(*view_->policy, services_.mcp_tools)) {
    if (!services_.mcp_tools.IsNewsThatMissing(one.backend, one.name)) continue;
    Log(LogLevel::kWarn,
        "the policy names a tool that the MCP server does not list: is it spelled so? Calls by "
        "another name are unlisted",
        {{"backend", one.backend}, {"tool", one.name}});
  }
}

// Observe mode: the body is judged as soon as it has passed.
void Session::JudgeObservedMcp() {
  RequestContext& context = observed_->context();
  const std::string* const body = observed_->WholeRequest();
  if (body == nullptr) return;
  auto requests = ReadMcpRequest(context.request.headers, *body);
  if (!requests) {
    observed_->Refuse(CallRefusal(ErrorCode::kMalformedRequest, requests.error().message));
    return;
  }
  const auto decision = DecideMcpCall(*context.backend, *requests);
  if (const auto refusal = RefusalOfCall(decision, context.request.headers, requests->front())) {
    observed_->Refuse(CallRefusal(ErrorCode::kMalformedRequest, refusal->message));
    return;
  }
  RouteMatch match;
  match.backend = context.backend;
  match.tool = decision.tool;
  match.effect = decision.effect;
  NoteMcp(match, requests->front());
  if (decision.effect == Effect::kRead) {
    const auto observed = std::exchange(observed_, nullptr);
    if (observed->refusal()) NoteRefusal(match.backend->mcp_path, *observed->refusal());
    return;
  }
  if (requests->size() == 1) {
    context.reading = std::make_shared<const CallBody>(TakeReading(requests->front(), *body));
  }
  context.tool = decision.tool;
  if (decision.tool != nullptr) {
    context.tool_name = decision.tool->name;
    context.guarded = true;
  }
  if (const std::string why = WhyNobody(); context.guarded && !why.empty()) {
    observed_->Refuse(CallRefusal(ErrorCode::kCallerUnknown, why));
  }
  if (decision.is_denied) {
    observed_->Refuse(CallRefusal(ErrorCode::kDenied, "no tool of the policy matches this call"));
  }
}

}  // namespace recourse
