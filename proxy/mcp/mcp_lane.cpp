#include "proxy/mcp/mcp_lane.h"

#include <algorithm>

#include "filters/call/answers.h"
#include "filters/call/call_values.h"
#include "filters/mcp/mcp_answer.h"
#include "proxy/exchange/head_judgement.h"
#include "proxy/exchange/request_facts.h"
#include "proxy/lanes/observed_call.h"
#include "proxy/lanes/write_call.h"
#include "proxy/mcp/mcp_judgement.h"
#include "proxy/mcp/mcp_read.h"
#include "proxy/mcp/mcp_write.h"

namespace recourse {
namespace {

HttpResponse RefusalAnswer(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.headers.emplace_back("Content-Type", "application/json");
  response.body = std::move(body);
  return response;
}

// Refused by what it says, as the server would.
Task<bool> Object(Exchange& exchange, const McpRefusal& refusal) {
  exchange.request.record.error = FactsOf(ErrorCode::kMalformedRequest).slug;
  const HttpResponse answer = RefusalAnswer(refusal.status, RefusalBody(refusal));
  co_return co_await exchange.reply.Send(answer, exchange.request.head.keep_alive);
}

Task<bool> RefuseMcp(Exchange& exchange, ErrorCode code, std::string detail) {
  exchange.request.record.error = FactsOf(code).slug;
  co_return co_await ReplyHere(exchange, AgentRefusal(MakeProblem(code, detail)),
                               !EndsConnection(code));
}

// Of a read that can be canceled by its id; empty: of none.
std::string NameOfRead(const ServedRequest& request, const std::string& session,
                       const std::vector<McpRequest>& messages) {
  if (session.empty() || messages.size() != 1) return {};
  const auto id = ParseJson(messages.front().id);
  if (!id || messages.front().method.empty()) return {};
  return NameOfCall(request.caller.name(), *request.route.match.backend, session, *id);
}

// What the server compresses, nobody here can look into.
void AskForPlain(Head& head) {
  for (std::size_t i = 0; i < head.field_count; ++i) {
    Field& field = head.fields[i];
    field.hop = field.hop || EqualsIgnoreCase(field.name, "Accept-Encoding");
  }
}

}  // namespace

void McpLane::Tap(ServedRequest& request) const {
  StartTap(request);
  if (request.tap) request.tap->call().is_message = true;
}

Task<void> McpLane::JudgeObserved(ServedRequest& request) {
  return JudgeObservedMcp(request, state_.tools);
}

// From here on an answer with one of these ids may be another request's than that of a call before.
void McpLane::NoteIds(const ServedRequest& request, const std::string& session,
                      const std::vector<McpRequest>& messages) {
  if (session.empty()) return;
  for (const McpRequest& message : messages) {
    if (message.id.empty() || message.method.empty()) continue;
    const auto id = ParseJson(message.id);
    if (!id) continue;
    const std::string name =
        NameOfCall(request.caller.name(), *request.route.match.backend, session, *id);
    state_.calls.Note(name);
    state_.late.Forget(name);
  }
}

Task<bool> McpLane::Run(Exchange& exchange) {
  ServedRequest& request = exchange.request;
  const Backend& backend = *request.route.place.backend;
  RouteMatch& match = request.route.match;
  match = RouteMatch();
  match.backend = &backend;
  match.path = match.sent = backend.endpoint;
  match.effect = Effect::kRead;
  if (auto refusal = RefusalAtEndpoint(request.policy(), request.head, request.route.query)) {
    const bool has_other_methods = refusal->code() == ErrorCode::kMethodNotAllowed;
    co_return co_await Refuse(exchange, refusal->code(), refusal->detail(),
                              has_other_methods ? "GET, HEAD, POST, DELETE, OPTIONS" : "");
  }
  if (request.head.method == "POST") co_return co_await Post(exchange);
  // Some servers take a body for a message whatever the method says.
  if (HasBody(request.head)) {
    co_return co_await Refuse(
        exchange, ErrorCode::kMalformedRequest,
        "a " + std::string(request.head.method) + " to an MCP endpoint may not have a body");
  }
  if (HasFlowOrder(request.head)) {
    request.record.effect = "write";
    request.route.is_guarded = true;
    co_return co_await write_.Run(exchange);
  }
  request.record.effect = "read";
  co_return co_await Stream(exchange);
}

Task<bool> McpLane::Stream(Exchange& exchange) {
  ServedRequest& request = exchange.request;
  if (request.head.method == "GET" && !state_.late.empty()) {
    const Headers headers = EndToEndFields(request.head, request.view->fields_read);
    std::string session = SessionOf(headers);
    if (!session.empty() && FindHeader(headers, "Last-Event-ID") != nullptr) {
      ResumedRead resumed(request, state_.late, std::move(session));
      co_return co_await read_.Relay(exchange, &resumed);
    }
  }
  co_return co_await read_.Run(exchange);
}

Task<bool> McpLane::Post(Exchange& exchange) {
  ServedRequest& request = exchange.request;
  CallClient client(exchange.client);
  BodyReservation room(request.services, request.Payer(), client);
  auto body = co_await ReadEndpointBody(exchange, room,
                                        "the body of an MCP message may have at most 8 MiB");
  if (exchange.reply.is_cut()) co_return false;
  if (!body) {
    co_return co_await RefuseMcp(exchange, body.error().code(), std::string(body.error().detail()));
  }
  request.record.bytes_in += request.head.size + body->size();
  co_return co_await Execute(exchange, client, room, std::move(*body));
}

Task<bool> McpLane::Execute(Exchange& exchange, CallClient& client, BodyReservation& room,
                            std::string body) {
  ServedRequest& request = exchange.request;
  Services& services = request.services;
  RouteMatch& match = request.route.match;
  Headers headers = EndToEndFields(request.head, request.view->fields_read);
  ReadPost post;
  const auto look = [&] { post = ReadMcpPost(headers, body); };
  if (body.size() < limits::kLargeBodyBytes) {
    look();
  } else if (!co_await room.RunApart(look, request.worker.thread)) {
    co_return co_await RefuseMcp(exchange, ErrorCode::kOverloaded, std::string(kNoRoomApart));
  }
  auto& messages = post.messages;
  if (!messages) co_return co_await Object(exchange, messages.error());
  const McpRequest& first = messages->front();
  const std::string session = SessionOf(headers);
  request.record.rpc = McpMethodLabel(first.method);
  if (post.canceled && !TakeCancel(request, state_.calls, *post.canceled, session, headers)) {
    request.record.decision = "held-back";
    HttpResponse accepted;
    accepted.status = 202;
    co_return co_await exchange.reply.Send(accepted, request.head.keep_alive);
  }
  NoteIds(request, session, *messages);
  const auto decision = DecideMcpCall(request, state_.tools, *match.backend, *messages);
  if (const auto refusal = RefusalOfCall(request, state_.tools, decision, headers, first,
                                         post.reading ? post.reading->json : first.arguments)) {
    co_return co_await Object(exchange, *refusal);
  }
  match.tool = decision.tool;
  match.effect = HasFlowOrder(request.head) ? Effect::kWrite : decision.effect;
  match.unlisted = decision.unlisted;
  NoteMcp(request, match, first);
  if (match.effect == Effect::kWrite || decision.is_denied) {
    if (!room.BeginWrite()) {
      services.metrics->rejections.Add({{"reason", "writes"}}).Increment();
      co_return co_await RefuseMcp(exchange, ErrorCode::kOverloaded,
                                   "too many calls are being worked on");
    }
    McpWrite write(exchange, client, state_, room, std::move(post), std::move(body),
                   std::move(headers));
    co_return co_await write.Run(decision.is_denied);
  }
  const CallsInFlight::Read reading(state_.calls, NameOfRead(request, session, *messages));
  request.route.sends_once = decision.passes_once;
  AskForPlain(request.head);
  McpRead read(request, state_.tools, std::move(*messages), std::move(body), headers, room);
  co_return co_await read_.Relay(exchange, &read);
}

}  // namespace recourse
