#include "proxy/lanes/observe_lane.h"

#include <utility>

#include "proxy/base/http/http_message.h"
#include "proxy/exchange/head_judgement.h"
#include "proxy/lanes/observed_call.h"

namespace recourse {

Task<bool> ObserveLane::Run(Exchange& exchange) {
  ServedRequest& request = exchange.request;
  if (request.route.place.where == EndpointPath::kExact) {
    JudgeEndpoint(request);
  } else {
    Judge(request);
  }
  return read_.Run(exchange);
}

void ObserveLane::Judge(ServedRequest& request) {
  const Head& head = request.head;
  Route& route = request.route;
  RouteMatch& match = route.match;
  const Backend& backend = *route.place.backend;
  const Policy& policy = request.policy();
  const auto found = policy.routes->Match(backend, head.method, route.path, route.scratch, match);
  auto refusal = RefusalOfHead(policy, head, route.place, route.query, found, match);
  if (!found) {
    match = RouteMatch();
    match.backend = &backend;
    match.path = match.sent = route.path;
    match.effect = IsReadMethod(head.method) ? Effect::kRead : Effect::kWrite;
  }
  // A question about a write is none, unless its tool names the method; enforce never sends it.
  if (IsQuestionAboutWrite(head, match)) match.effect = Effect::kRead;
  const bool is_write = match.effect == Effect::kWrite;
  request.record.backend = match.backend;
  request.record.tool = match.tool;
  if (match.tool == nullptr) {
    request.worker.unlisted.Count(backend, match.effect, head.method, route.path);
  }
  request.record.effect = is_write ? "write" : "read";
  // What is no read for HTTP is never sent twice, and never on a connection that may be dying.
  route.sends_once = is_write || !IsReadMethod(head.method);
  route.is_guarded = match.tool != nullptr || match.unlisted == UnlistedRule::kGuard;
  if (std::string why = request.caller.WhyNobody();
      !refusal && is_write && route.is_guarded && !why.empty()) {
    refusal = CallRefusal(ErrorCode::kCallerUnknown, std::move(why));
  }
  if (is_write) StartObservation(request, refusal);
  StartTap(request);
  if (refusal && !request.observation) NoteRefusal(request, route.path, *refusal);
  match.sent = route.path;  // as it came
}

// What it is, the body says, which is judged as it has passed.
void ObserveLane::JudgeEndpoint(ServedRequest& request) const {
  const Head& head = request.head;
  Route& route = request.route;
  const Backend& backend = *route.place.backend;
  EndpointLane& lane = endpoints_.Of(backend);
  const bool is_message = lane.MayBeCall(head, route.query);
  route.match = RouteMatch();
  route.match.backend = &backend;
  route.match.path = route.match.sent = backend.endpoint;
  route.match.effect = is_message ? Effect::kWrite : Effect::kRead;
  route.match.unlisted = request.policy().unlisted_writes;
  route.is_guarded = route.match.unlisted == UnlistedRule::kGuard;
  request.record.backend = &backend;
  request.record.effect = is_message ? "write" : "read";
  route.sends_once = !IsReadMethod(head.method);
  const auto refusal = RefusalAtEndpoint(request.policy(), head, route.query);
  if (is_message) StartObservation(request, refusal);
  if (is_message) lane.Tap(request);
  if (refusal && !request.observation) NoteRefusal(request, route.match.path, *refusal);
  route.judge = request.observation ? &lane : nullptr;
}

}  // namespace recourse
