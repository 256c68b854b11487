#include "proxy/graphql/graphql_lane.h"

#include <algorithm>
#include <utility>

#include "filters/call/call_values.h"
#include "policy/graphql/decision/graphql_decision.h"
#include "policy/model/tool_names.h"
#include "proxy/exchange/head_judgement.h"
#include "proxy/exchange/held_body.h"
#include "proxy/exchange/observation.h"
#include "proxy/exchange/request_facts.h"
#include "proxy/lanes/observed_call.h"
#include "proxy/lanes/write_call.h"

namespace recourse {
namespace {

constexpr std::string_view kEndpointMethods = "GET, HEAD, POST, OPTIONS";

// What the body, or of a GET the target, asks for. `request` is as it came, or as it goes on.
GraphqlDecision Judge(const Policy& policy, const Backend& backend, const HttpRequest& request) {
  const std::string_view target = request.target;
  const auto calls =
      ReadGraphql(backend, request.method, request.headers,
                  target.substr(std::min(target.find('?'), target.size())), request.body);
  if (calls) return DecideGraphql(policy, backend, *calls);
  GraphqlDecision decision;
  decision.refusal = calls.error();
  return decision;
}

void NoteGraphql(ServedRequest& request, const Backend& backend, const GraphqlDecision& decision) {
  request.record.rpc = decision.field.empty() ? std::string_view("query") : kMutation;
  request.record.tool = decision.tool;
  request.record.effect = decision.effect == Effect::kRead ? "read" : "write";
  if (decision.tool == nullptr && !decision.field.empty()) {
    request.worker.unlisted.Count(backend, decision.effect, kMutation, decision.field);
  }
}

Task<bool> RefuseGraphql(Exchange& exchange, const CallRefusal& refusal) {
  const bool is_method = refusal.code() == ErrorCode::kMethodNotAllowed;
  co_return co_await Refuse(exchange, refusal.code(), refusal.detail(),
                            is_method ? std::string(kEndpointMethods) : std::string());
}

}  // namespace

Task<bool> GraphqlLane::Run(Exchange& exchange) {
  ServedRequest& request = exchange.request;
  const Backend& backend = *request.route.place.backend;
  const Head& head = request.head;
  RouteMatch& match = request.route.match;
  match = RouteMatch();
  match.backend = &backend;
  match.path = match.sent = backend.endpoint;
  match.effect = Effect::kRead;
  request.route.query = QueryOf(head);
  if (auto refusal = RefusalAtEndpoint(request.policy(), head, request.route.query)) {
    co_return co_await RefuseGraphql(exchange, *refusal);
  }
  if (HasFlowOrder(head)) {
    request.record.effect = "write";
    request.route.is_guarded = true;
    co_return co_await write_.Run(exchange);
  }
  if (head.method == "POST") co_return co_await Post(exchange);
  request.record.effect = "read";
  if (head.method == "DELETE") {
    co_return co_await RefuseGraphql(
        exchange, CallRefusal(ErrorCode::kMethodNotAllowed, "this endpoint knows no DELETE"));
  }
  if (head.method != "OPTIONS") {
    const auto decision =
        Judge(request.policy(), backend, {"GET", std::string(request.route.query), {}, {}});
    if (decision.refusal) co_return co_await RefuseGraphql(exchange, *decision.refusal);
  }
  co_return co_await read_.Run(exchange);
}

Task<bool> GraphqlLane::Post(Exchange& exchange) {
  ServedRequest& request = exchange.request;
  BodyReservation room(request.services, request.Payer(), exchange.client);
  auto body = co_await ReadEndpointBody(exchange, room,
                                        "the body of a GraphQL request may have at most 8 MiB");
  if (exchange.reply.is_cut()) co_return false;
  if (!body) {
    co_return co_await Refuse(exchange, body.error().code(), std::string(body.error().detail()));
  }
  co_return co_await Execute(exchange, room, std::move(*body));
}

Task<bool> GraphqlLane::Execute(Exchange& exchange, BodyReservation& room, std::string body) {
  ServedRequest& request = exchange.request;
  RouteMatch& match = request.route.match;
  HttpRequest asked{"POST", std::string(request.route.query),
                    EndToEndFields(request.head, request.view->fields_read), std::move(body)};
  GraphqlDecision decision;
  const auto judge = [&] { decision = Judge(request.policy(), *match.backend, asked); };
  if (asked.body.size() < limits::kLargeBodyBytes) {
    judge();
  } else if (!co_await room.RunApart(judge, request.worker.thread)) {
    co_return co_await Refuse(exchange, ErrorCode::kOverloaded, std::string(kNoRoomApart));
  }
  match.tool = decision.tool;
  match.effect = decision.effect;
  match.unlisted = decision.unlisted;
  NoteGraphql(request, *match.backend, decision);
  if (decision.refusal) co_return co_await RefuseGraphql(exchange, *decision.refusal);
  if (decision.effect == Effect::kRead) {
    HeldBody held(std::move(asked.body));
    Exchange with_body{request, held, exchange.reply, exchange.client};
    co_return co_await read_.Run(with_body);
  }
  request.route.is_guarded = match.tool != nullptr || decision.unlisted == UnlistedRule::kGuard;
  co_return co_await write_.RunRead(exchange, room, std::move(asked.body));
}

Task<void> GraphqlLane::JudgeObserved(ServedRequest& request) {
  RequestContext& context = request.observation->context();
  // The context has it.
  if (request.observation->WholeRequest() == nullptr) co_return;
  const Backend& backend = *context.backend;
  GraphqlDecision decision;
  const auto look = [&] { decision = Judge(request.policy(), backend, context.request); };
  if (!co_await request.observation->LookAtRequest(look)) co_return;
  NoteGraphql(request, backend, decision);
  if (decision.refusal) {
    request.observation->Refuse(*decision.refusal);
    co_return;
  }
  (void)ObserveAs(request, decision.tool, decision.effect);
}

}  // namespace recourse
