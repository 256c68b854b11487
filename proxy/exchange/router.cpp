#include "proxy/exchange/router.h"

#include <utility>

#include "proxy/base/http/own_port.h"
#include "proxy/exchange/pick.h"

namespace recourse {
namespace {

Task<bool> ReplyPort(Exchange& exchange) {
  const HttpResponse answer = PortAnswer(kAgentsPort);
  co_return co_await ReplyHere(exchange, answer, /*understood=*/true);
}

Task<bool> RefuseAndEnd(Exchange& exchange, Pick pick) {
  co_await Refuse(exchange, pick.code, std::move(pick.detail));
  co_return false;
}

void NotePick(ServedRequest& request, const Pick& pick) {
  RequestRecord& record = request.record;
  const Policy& policy = request.policy();
  if (pick.names_caller && policy.callers.names_any()) {
    request.caller.Identify(policy.callers, request.head, request.services.clock->WallNow());
    record.caller = request.caller.name();
  }
  if (pick.would_refuse) record.decision = "would-refuse";
  record.host_differs = pick.host_differs;
  if (pick.backend != nullptr) record.backend = pick.backend;
  if (pick.tool != nullptr) record.tool = pick.tool;
  if (pick.to == Pick::To::kRead) record.effect = "read";
  if (pick.to == Pick::To::kWrite) record.effect = "write";
  if (pick.is_unlisted) {
    const Route& route = request.route;
    request.worker.unlisted.Count(*pick.backend, route.match.effect, request.head.method,
                                  route.path);
  }
}

}  // namespace

Task<bool> ServeRequest(Exchange& exchange, const Lanes& lanes) {
  ServedRequest& request = exchange.request;
  Pick pick = PickLane({.head = request.head,
                        .ingress = request.ingress,
                        .policy = request.policy(),
                        .hosts = request.view->last_host,
                        .via = request.services.via},
                       request.route);
  NotePick(request, pick);
  switch (pick.to) {
    case Pick::To::kRead:
      return lanes.read.Run(exchange);
    case Pick::To::kWrite:
      return lanes.write.Run(exchange);
    case Pick::To::kEndpoint:
      return lanes.endpoints.Of(*pick.backend).Run(exchange);
    case Pick::To::kObserve:
      return lanes.observe.Run(exchange);
    case Pick::To::kPoll:
      return lanes.poll.Run(exchange);
    case Pick::To::kConnect:
      return lanes.tunnel.Run(exchange);
    case Pick::To::kRedirected:
      return lanes.tunnel.RunRedirected(exchange, std::move(pick.detail));
    case Pick::To::kPort:
      return ReplyPort(exchange);
    case Pick::To::kOptions:
      return ReplyOptions(exchange, std::move(pick.allow));
    case Pick::To::kRefuse:
      break;
  }
  if (pick.lingers) exchange.reply.Linger(true);
  if (pick.ends_connection) return RefuseAndEnd(exchange, std::move(pick));
  return Refuse(exchange, pick.code, std::move(pick.detail), std::move(pick.allow));
}

}  // namespace recourse
