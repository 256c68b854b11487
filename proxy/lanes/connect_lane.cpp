// CONNECT: a tunnel to a backend carries requests like any other; every other tunnel is blind, and
// there is one only where the policy's `tunnels` allow it.
#include <algorithm>

#include "policy/uri/addresses.h"
#include "proxy/base/log/log.h"
#include "proxy/exchange/request_head.h"
#include "proxy/exchange/session.h"
#include "proxy/net/message/first_bytes.h"

namespace recourse {
namespace {

// fatal, access_denied: what a TLS client shows instead of a connection that ended.
constexpr std::string_view kTlsAlert{"\x15\x03\x01\x00\x02\x02\x31", 7};

constexpr std::string_view kConnected = "HTTP/1.1 200 Connection established\r\n\r\n";

std::string WhyNotConnected(const Error& error) {
  if (error.code() != ErrorCode::kAddressRefused) return std::string(error.detail());
  return "the tunnel's host leads to an address that no tunnel may have: a loopback, link-local or "
         "metadata address; a loopback address itself can be listed in `tunnels`";
}

}  // namespace

Task<bool> Session::ServeConnect() {
  // After a refusal, what the client has sent for the tunnel must not be read as requests.
  linger_ = true;
  if (inside_) {
    co_return co_await RefuseConnect(ErrorCode::kMethodNotAllowed,
                                     "this connection is in a tunnel already");
  }
  if (original_) {
    co_return co_await RefuseConnect(ErrorCode::kMethodNotAllowed,
                                     "this connection was meant for another proxy, at " +
                                         original_text_ +
                                         "; unset the proxy: what is sent to the host itself comes "
                                         "here too");
  }
  if (HasBody(head_)) {
    co_return co_await RefuseConnect(ErrorCode::kMalformedRequest, "a CONNECT has no body");
  }
  auto target = ParseAuthority(head_.authority);
  if (!target || target->port == 0) {
    co_return co_await RefuseConnect(ErrorCode::kMalformedRequest,
                                     "CONNECT asks for a host name or address, and a port");
  }
  record_.authority = AuthorityText(*target, 0);
  record_.host_differs = !head_.host.empty() && !EqualsIgnoreCase(head_.host, head_.authority);
  if (services_.draining) {
    co_return co_await RefuseConnect(ErrorCode::kDraining, "this process is shutting down");
  }
  TunnelDecision decision = DecideTunnel(*view_->policy, *target, std::nullopt);
  switch (decision.act) {
    case TunnelDecision::Act::kServe:
      record_.backend = decision.backend;
      co_return co_await EnterTarget(std::move(*target));
    case TunnelDecision::Act::kTunnel:
      co_return co_await RunBlindTunnel(std::move(*target), std::move(decision), Told::kNo);
    case TunnelDecision::Act::kRefuse:
      break;
  }
  co_return co_await RefuseConnect(ErrorCode::kTunnelRefused, std::move(decision.reason));
}

Task<bool> Session::RefuseConnect(ErrorCode code, std::string reason) {
  CountTunnel("refused");
  return Refuse(code, std::move(reason));
}

Task<bool> Session::EnterTarget(Authority target) {
  in_.Consume(head_.size);
  record_.status = 200;
  client_.deadline.Arm(Now() + services_.bounds.send_timeout);
  record_.client_gone = !co_await WriteAll(client_, {kConnected});
  client_.deadline.Disarm();
  linger_ = false;
  if (record_.client_gone) co_return false;
  CountTunnel("served");
  inside_ = {std::move(target), 80};
  meets_opening_ = true;
  co_return true;
}

Task<Session::Met> Session::MeetOpening() {
  const FirstBytes first = ReadFirstBytes(in_.unread());
  if (!first.is_complete) co_return Met::kNeedMore;
  meets_opening_ = false;
  // Each request of who was redirected is judged by the host that it names.
  if (original_ && first.opening == ClientOpening::kHttp) co_return Met::kRequest;
  const Authority target = inside_ ? inside_->target : RedirectedTarget(first);
  const Heard heard{first.opening, first.server_name};
  TunnelDecision decision = DecideTunnel(*worker_.view->policy, target, heard);
  const bool is_tls =
      first.opening == ClientOpening::kTls || first.opening == ClientOpening::kBadTls;
  const bool is_blind = decision.act == TunnelDecision::Act::kTunnel;
  // What is neither TLS nor HTTP is told so, as on any connection.
  if (!is_blind && !is_tls) co_return Met::kRequest;
  const bool is_served = decision.act == TunnelDecision::Act::kServe;
  if (is_served && co_await Intercept(target)) co_return Met::kNeedMore;
  if (!is_served && !is_blind && decision.backend != nullptr &&
      worker_.view->policy->routes->Intercepts(*decision.backend)) {
    NoteInterception(target, "name", decision.reason,
                     "have the client name the host that it calls");
  }
  head_.Reset();
  BeginRecord();
  record_.method.Set("CONNECT");
  record_.authority = AuthorityText(target, 0);
  record_.server_name = first.server_name;
  if (is_blind) {
    co_await RunBlindTunnel(target, std::move(decision), Told::kYes);
  } else {
    co_await RefuseTls(decision.reason);
  }
  EndRecord();
  co_return Met::kOver;
}

// The 200 is said already, so that TLS has to say it, which cannot say why.
Task<void> Session::RefuseTls(std::string_view reason) {
  CountTunnel("refused");
  record_.error = FactsOf(ErrorCode::kTunnelRefused).slug;
  LogBrokenTunnel("TLS in a tunnel was refused", reason);
  linger_ = true;
  client_.deadline.Arm(Now() + services_.bounds.send_timeout);
  record_.client_gone = !co_await WriteAll(client_, {kTlsAlert});
}

std::string Session::WhyMisdirected() const {
  const Authority& target = inside_->target;
  const bool is_absolute = head_.form == TargetForm::kAbsolute;
  const std::string_view named = is_absolute ? head_.authority : head_.host;
  if (named.empty()) return {};
  const bool is_https = is_absolute && (head_.target[4] | 0x20) == 's';
  const auto authority = ParseAuthority(named);
  const bool is_same_scheme = !is_absolute || is_https == (inside_->scheme_port == 443);
  if (authority && is_same_scheme && authority->host == target.host &&
      (authority->port == 0 ? inside_->scheme_port : authority->port) == target.port) {
    return {};
  }
  return "this tunnel leads to " + AuthorityText(target, 0) +
         ", and the request in it is for another host, port or scheme";
}

Tunnel::Verdict Session::JudgeBlindOpening(const Authority& target, std::string_view bytes) {
  if (!MayBeTls(bytes)) return Tunnel::Verdict::kPass;
  const FirstBytes first = ReadFirstBytes(bytes);
  if (!first.is_complete) return Tunnel::Verdict::kNeedMore;
  record_.server_name = first.server_name;
  const Heard heard{first.opening, first.server_name};
  const TunnelDecision decision = DecideTunnel(*view_->policy, target, heard);
  if (decision.act == TunnelDecision::Act::kTunnel) return Tunnel::Verdict::kPass;
  record_.error = FactsOf(ErrorCode::kTunnelRefused).slug;
  LogBrokenTunnel("TLS in a tunnel was refused", decision.reason);
  return Tunnel::Verdict::kRefuse;
}

// A wildcard never means a backend, by whatever name.
Task<std::string> Session::WhyAlias(const Authority& target, std::string peer, MonoTime deadline) {
  const auto reached = ParseIpAddress(peer);
  for (const Backend* const backend : PossibleAliases(*view_->policy, target)) {
    const auto addresses = co_await worker_.thread.Resolve(backend->host, deadline);
    const bool is_same = std::ranges::any_of(addresses, [&](const auto& address) {
      return ParseIpAddress(address.to_string()) == reached;
    });
    if (is_same) co_return WhyNoAlias(target, *backend);
  }
  co_return std::string();
}

Task<bool> Session::RunBlindTunnel(Authority target, TunnelDecision decision, Told told) {
  const Backend end = TunnelEnd(*view_->policy, target, decision);
  const MonoTime deadline = Now() + end.connect_timeout;
  auto connected = co_await Connect(worker_.thread, end, services_.own);
  if (!connected) {
    CountTunnel("failed");
    if (told == Told::kNo) {
      co_return co_await Refuse(connected.error().code(), WhyNotConnected(connected.error()));
    }
    record_.error = FactsOf(connected.error().code()).slug;
    LogBrokenTunnel("a tunnel could not be made", WhyNotConnected(connected.error()));
    co_return false;
  }
  record_.peer = (*connected)->peer;
  if (std::string why = co_await WhyAlias(target, std::string((*connected)->peer.view()), deadline);
      !why.empty()) {
    if (told == Told::kNo) co_return co_await RefuseConnect(ErrorCode::kTunnelRefused, why);
    co_await RefuseTls(why);
    co_return false;
  }
  record_.status = 200;
  if (told == Told::kNo) {
    in_.Consume(head_.size);
    client_.deadline.Arm(Now() + services_.bounds.send_timeout);
    record_.client_gone = !co_await WriteAll(client_, {kConnected});
  }
  linger_ = false;
  if (record_.client_gone) co_return false;
  CountTunnel(decision.reason.empty() ? "opened" : "would-refuse");
  ReadBuffer up;
  Tunnel tunnel(
      worker_.thread, {client_, in_}, {**connected, up}, services_.bounds.stream_timeout,
      {[this, &target](std::string_view bytes) { return JudgeBlindOpening(target, bytes); },
       services_.bounds.head_timeout});
  co_await RunThrough(tunnel);
  if (!record_.error.empty()) CountTunnel("refused");
  co_return false;
}

Task<void> Session::RunThrough(Tunnel& tunnel) {
  tunnel_ = &tunnel;
  services_.metrics->tunnels.Increment();
  if (services_.draining) tunnel.Drain();
  co_await tunnel.Run();
  services_.metrics->tunnels.Decrement();
  tunnel_ = nullptr;
  record_.bytes_in += tunnel.bytes_to_backend();
  record_.bytes_out += tunnel.bytes_to_client();
  services_.metrics->tunnel_bytes_to_backend.Increment(
      static_cast<double>(tunnel.bytes_to_backend()));
  services_.metrics->tunnel_bytes_to_client.Increment(
      static_cast<double>(tunnel.bytes_to_client()));
}

void Session::LogBrokenTunnel(std::string_view what, std::string_view reason) {
  if (!MayLogHandshake()) return;
  const std::string failed = std::to_string(worker_.handshakes_failed);
  Log(LogLevel::kWarn, what,
      {{"target", record_.authority},
       {"sni", record_.server_name},
       {"reason", reason},
       {"failed_since_last_line", failed}});
  worker_.handshakes_failed = 0;
}

void Session::CountTunnel(std::string_view decision) {
  record_.decision = decision;
  services_.metrics->tunnels_by_decision
      .Add({{"by", original_ ? "redirect" : "connect"}, {"decision", std::string(decision)}})
      .Increment();
}

}  // namespace recourse
