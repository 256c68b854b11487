#include <algorithm>

#include "policy/uri/addresses.h"
#include "proxy/base/log/log.h"
#include "proxy/exchange/request_facts.h"
#include "proxy/lanes/connect_lane.h"
#include "proxy/lanes/run_tunnel.h"
#include "proxy/net/message/protocol_detection.h"

namespace recourse {
namespace {

// fatal, access_denied: what a TLS client shows instead of a connection that ended.
constexpr std::string_view kTlsAlert{"\x15\x03\x01\x00\x02\x02\x31", 7};

std::string WhyNotConnected(const Error& error) {
  if (error.code() != ErrorCode::kAddressRefused) return std::string(error.detail());
  return "the tunnel's host leads to an address that no tunnel may have: a loopback, link-local or "
         "metadata address; a loopback address itself can be listed in `tunnels`";
}

void LogBrokenTunnel(const ServedRequest& request, std::string_view what, std::string_view reason) {
  if (!request.worker.MayTellOfHandshake()) return;
  const std::string failed = std::to_string(request.worker.handshakes_failed);
  Log(LogLevel::kWarn, what,
      {{"target", request.record.authority},
       {"sni", request.record.server_name},
       {"reason", reason},
       {"failed_since_last_line", failed}});
  request.worker.handshakes_failed = 0;
}

void CountTunnel(ServedRequest& request, std::string_view decision) {
  request.record.decision = decision;
  request.services.metrics->tunnels_by_decision
      .Add({{"by", request.ingress.original ? "redirect" : "connect"},
            {"decision", std::string(decision)}})
      .Increment();
}

}  // namespace

Task<bool> ConnectLane::Run(Exchange& exchange) {
  ServedRequest& request = exchange.request;
  // After a refusal, what the client has sent for the tunnel must not be read as requests.
  exchange.reply.Linger(true);
  if (request.ingress.inside) {
    co_return co_await RefuseConnect(exchange, ErrorCode::kMethodNotAllowed,
                                     "this connection is in a tunnel already");
  }
  if (request.ingress.original) {
    co_return co_await RefuseConnect(exchange, ErrorCode::kMethodNotAllowed,
                                     "this connection was meant for another proxy, at " +
                                         request.ingress.original_text +
                                         "; unset the proxy: what is sent to the host itself comes "
                                         "here too");
  }
  if (HasBody(request.head)) {
    co_return co_await RefuseConnect(exchange, ErrorCode::kMalformedRequest,
                                     "a CONNECT has no body");
  }
  auto target = ParseAuthority(request.head.authority);
  if (!target || target->port == 0) {
    co_return co_await RefuseConnect(exchange, ErrorCode::kMalformedRequest,
                                     "CONNECT asks for a host name or address, and a port");
  }
  request.record.authority = AuthorityText(*target, 0);
  request.record.host_differs =
      !request.head.host.empty() && !EqualsIgnoreCase(request.head.host, request.head.authority);
  if (request.services.draining) {
    co_return co_await RefuseConnect(exchange, ErrorCode::kDraining,
                                     "this process is shutting down");
  }
  TunnelDecision decision = DecideTunnel(request.policy(), *target, std::nullopt);
  switch (decision.act) {
    case TunnelDecision::Act::kServe:
      request.record.backend = decision.backend;
      co_return co_await EnterTarget(exchange, std::move(*target));
    case TunnelDecision::Act::kTunnel:
      co_return co_await RunBlind(exchange, std::move(*target), std::move(decision),
                                  ConnectReplied::kNo);
    case TunnelDecision::Act::kRefuse:
      break;
  }
  co_return co_await RefuseConnect(exchange, ErrorCode::kTunnelRefused, std::move(decision.reason));
}

Task<bool> ConnectLane::RefuseConnect(Exchange& exchange, ErrorCode code, std::string reason) {
  CountTunnel(exchange.request, "refused");
  return Refuse(exchange, code, std::move(reason));
}

Task<bool> ConnectLane::EnterTarget(Exchange& exchange, Authority target) {
  const bool is_accepted = (co_await exchange.client.AcceptConnect()).has_value();
  exchange.reply.Linger(false);
  if (!is_accepted) co_return false;
  CountTunnel(exchange.request, "served");
  exchange.client.EnterTunnel(std::move(target));
  co_return true;
}

// The 200 is said already, so that TLS has to say it, which cannot say why.
Task<void> ConnectLane::RefuseTls(Exchange& exchange, std::string_view reason) {
  ServedRequest& request = exchange.request;
  CountTunnel(request, "refused");
  request.record.error = FactsOf(ErrorCode::kTunnelRefused).slug;
  LogBrokenTunnel(request, "TLS in a tunnel was refused", reason);
  exchange.reply.Linger(true);
  const auto client = exchange.client.TakeOver();
  if (!client) co_return;
  client->connection.deadline.Arm(request.Now() + request.services.bounds.send_timeout);
  request.record.client_gone = !co_await WriteAll(client->connection, {kTlsAlert});
}

Tunnel::Verdict ConnectLane::JudgeBlindOpening(ServedRequest& request, const Authority& target,
                                               std::string_view bytes) {
  if (!MayBeTls(bytes)) return Tunnel::Verdict::kPass;
  const ProtocolDetection first = ReadFirstBytes(bytes);
  if (!first.is_complete) return Tunnel::Verdict::kNeedMore;
  request.record.server_name = first.server_name;
  const Heard heard{first.opening, first.server_name};
  const TunnelDecision decision = DecideTunnel(request.policy(), target, heard);
  if (decision.act == TunnelDecision::Act::kTunnel) return Tunnel::Verdict::kPass;
  request.record.error = FactsOf(ErrorCode::kTunnelRefused).slug;
  LogBrokenTunnel(request, "TLS in a tunnel was refused", decision.reason);
  return Tunnel::Verdict::kRefuse;
}

// A wildcard never means a backend, by whatever name.
Task<std::string> ConnectLane::WhyAlias(ServedRequest& request, const Authority& target,
                                        std::string peer, MonoTime deadline) {
  const auto reached = ParseIpAddress(peer);
  for (const Backend* const backend : PossibleAliases(request.policy(), target)) {
    const auto addresses = co_await request.worker.thread.names().Resolve(backend->host, deadline);
    const bool is_same = std::ranges::any_of(addresses, [&](const auto& address) {
      return ParseIpAddress(address.to_string()) == reached;
    });
    if (is_same) co_return WhyNoAlias(target, *backend);
  }
  co_return std::string();
}

Task<bool> ConnectLane::RunBlind(Exchange& exchange, Authority target, TunnelDecision decision,
                                 ConnectReplied replied) {
  ServedRequest& request = exchange.request;
  const Backend end = TunnelEnd(request.policy(), target, decision);
  const MonoTime deadline = request.Now() + end.connect_timeout;
  auto connected = co_await Connect(request.worker.thread, end, request.services.own);
  if (!connected) {
    CountTunnel(request, "failed");
    if (replied == ConnectReplied::kNo) {
      co_return co_await Refuse(exchange, connected.error().code(),
                                WhyNotConnected(connected.error()));
    }
    request.record.error = FactsOf(connected.error().code()).slug;
    LogBrokenTunnel(request, "a tunnel could not be made", WhyNotConnected(connected.error()));
    co_return false;
  }
  request.record.peer = (*connected)->peer;
  if (std::string why =
          co_await WhyAlias(request, target, std::string((*connected)->peer.view()), deadline);
      !why.empty()) {
    if (replied == ConnectReplied::kNo)
      co_return co_await RefuseConnect(exchange, ErrorCode::kTunnelRefused, why);
    co_await RefuseTls(exchange, why);
    co_return false;
  }
  auto client = exchange.client.TakeOver();
  if (replied == ConnectReplied::kNo && !co_await exchange.client.AcceptConnect()) client.reset();
  request.record.status = 200;
  exchange.reply.Linger(false);
  if (!client) co_return false;
  CountTunnel(request, decision.reason.empty() ? "opened" : "would-refuse");
  ReadBuffer up;
  Tunnel tunnel(request.worker.thread, {client->connection, client->buffer}, {**connected, up},
                request.services.bounds.stream_timeout,
                {[&request, &target](std::string_view bytes) {
                   return JudgeBlindOpening(request, target, bytes);
                 },
                 request.services.bounds.head_timeout});
  co_await RunTunnel(exchange, tunnel);
  if (!request.record.error.empty()) CountTunnel(request, "refused");
  co_return false;
}

// Its client knows nothing of a proxy.
Task<bool> ConnectLane::RunRedirected(Exchange& exchange, std::string authority) {
  ServedRequest& request = exchange.request;
  const auto target = ParseAuthority(authority);
  if (!target) {
    co_return co_await Refuse(exchange, ErrorCode::kUnknownBackend,
                              "the Host '" + authority + "' names no host");
  }
  const Authority named{target->host, request.ingress.original->port()};
  request.record.authority = AuthorityText(named, 0);
  TunnelDecision decision = DecideTunnel(request.policy(), named, Heard{ClientOpening::kHttp, {}});
  if (decision.act == TunnelDecision::Act::kTunnel) {
    co_return co_await RunBlind(exchange, named, std::move(decision), ConnectReplied::kYes);
  }
  CountTunnel(request, "refused");
  exchange.reply.Linger(true);
  co_return co_await Refuse(exchange, ErrorCode::kUnknownBackend, std::move(decision.reason));
}

}  // namespace recourse
