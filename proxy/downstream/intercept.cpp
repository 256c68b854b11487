// TLS of an agent that ends here although it is meant for a backend: the handshake inside of a
// tunnel, with a certificate of the pod's CA.
#include "policy/model/tunnel_decision.h"
#include "proxy/base/log/log.h"
#include "proxy/downstream/agent_tls.h"

namespace recourse {
namespace {

// Some clients look at the certificate only after the handshake, and then say nothing.
constexpr std::string_view kTrustAdvice =
    "give the client the file of --ca-bundle (`recourse env` names the variables), and start it "
    "again if it has read an older one; if it pins certificates, take `intercept` from the backend";

struct Failure {
  std::string_view result;  // of the metric
  std::string_view advice;
};

Failure FailureOf(ClientFailure failure) {
  switch (failure) {
    case ClientFailure::kUntrusted:
      return {"untrusted", kTrustAdvice};
    case ClientFailure::kVersion:
      return {"version", "TLS 1.2 is the oldest that is spoken; update the client"};
    case ClientFailure::kProtocol:
      return {"protocol", "only HTTP/1.1 is spoken; let the client offer it by ALPN"};
    case ClientFailure::kClosed:
      return {"closed", kTrustAdvice};
    case ClientFailure::kOther:
      break;
  }
  return {"other", "see the reason"};
}

}  // namespace

// The rest of the handshake whose beginning is in the buffer. What the backend's own certificate is
// like is found out by the first request, and told as an answer.
Task<bool> AgentTls::Intercept(Authority target) {
  wire_.ingress.inside = {std::move(target), 443};
  const Authority& host = wire_.ingress.inside->target;
  Services& services = wire_.worker.services;
  auto leaf = services.minter->For(host.host);
  if (!leaf) {
    co_return NoteInterception(host, "no_certificate", leaf.error(), "see --ca");
  }
  const auto peer = PeerEnd(wire_.client.socket());
  const auto place =
      services.handshakes.Enter(peer ? peer->address() : ConnectionLimiter::Address());
  if (!peer || !place) {
    co_return NoteInterception(host, "crowded", "too many handshakes at once", "repeat it later");
  }
  const int socket = wire_.client.socket();
  wire_.client.tls =
      TlsServer::NewStreamInside(*leaf, socket, std::move(wire_.client.tls), wire_.in.unread());
  wire_.ingress.is_secure = wire_.client.tls != nullptr;
  if (wire_.client.tls == nullptr) {
    co_return NoteInterception(host, "other", "OpenSSL cannot make a TLS connection",
                               "see its memory");
  }
  wire_.in.Consume(wire_.in.unread().size());
  wire_.client.deadline.Arm(wire_.Now() + limits::kTlsHandshakeTimeout);
  const HandshakeResult shaken = co_await ShakeHands();
  if (shaken == HandshakeResult::kSlow) {
    co_return NoteInterception(host, "slow", "the handshake took too long", "see the client");
  }
  if (shaken == HandshakeResult::kFailed) {
    const Failure failure = FailureOf(wire_.client.tls->WhyClientFailed());
    co_return NoteInterception(host, failure.result, wire_.client.tls->ClientProblem(),
                               failure.advice);
  }
  wire_.ingress.is_intercepted = true;
  intercepted_at_ = wire_.served;
  co_return true;
}

bool AgentTls::NoteInterception(const Authority& target, std::string_view result,
                                std::string_view reason, std::string_view advice) {
  CountInterception(result);
  if (!wire_.worker.MayTellOfHandshake()) return false;
  const std::string failed = std::to_string(wire_.worker.handshakes_failed);
  Log(LogLevel::kWarn, "a client's TLS to an intercepted host failed",
      {{"target", AuthorityText(target, 0)},
       {"result", result},
       {"reason", reason},
       {"advice", advice},
       {"failed_since_last_line", failed}});
  wire_.worker.handshakes_failed = 0;
  return false;
}

void AgentTls::CountInterception(std::string_view result) {
  wire_.worker.services.metrics->interceptions.Add({{"result", std::string(result)}}).Increment();
}

void AgentTls::NoteRequest() {
  if (intercepted_at_ == wire_.served) CountInterception("ok");
}

void AgentTls::End() {
  if (!intercepted_at_ || wire_.served > *intercepted_at_ || wire_.worker.services.draining) return;
  NoteInterception(wire_.ingress.inside->target, "unused",
                   "the client went away before its first request", kTrustAdvice);
}

}  // namespace recourse
