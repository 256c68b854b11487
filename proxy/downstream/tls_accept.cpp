// The TLS handshake of an agent's connection, before anything of HTTP.
#include "proxy/base/log/log.h"
#include "proxy/downstream/agent_tls.h"

namespace recourse {

// Empty when the connection is secure and the caller known, else why not.
Task<std::string_view> AgentTls::Handshake() {
  const std::shared_ptr<const TlsServer> server = wire_.worker.tls;
  wire_.client.tls = TlsServer::NewStream(server, wire_.client.socket());
  wire_.ingress.is_secure = wire_.client.tls != nullptr;
  if (wire_.client.tls == nullptr) co_return "OpenSSL cannot make a TLS connection";
  switch (co_await ShakeHands()) {
    case HandshakeResult::kSlow:
      co_return "the handshake took too long";
    case HandshakeResult::kFailed:
      co_return wire_.client.tls->ClientProblem();
    case HandshakeResult::kDone:
      break;
  }
  if (!server->identifies()) co_return "";
  auto caller = CallerOf(*wire_.client.tls);
  if (!caller) co_return "the client's certificate names no identity that can be used";
  caller_.Certify(std::move(*caller));
  co_return "";
}

// Until the deadline that is armed.
Task<AgentTls::HandshakeResult> AgentTls::ShakeHands() {
  for (;;) {
    const TlsStep step = wire_.client.tls->Handshake();
    if (step.error) co_return HandshakeResult::kFailed;
    if (step.want == TlsWant::kNothing) break;
    if (!co_await WaitForTls(wire_.client, step.want)) co_return HandshakeResult::kSlow;
  }
  wire_.client.deadline.Disarm();
  co_return HandshakeResult::kDone;
}

Task<bool> AgentTls::Accept() {
  const auto peer_end = PeerEnd(wire_.client.socket());
  if (!peer_end) co_return false;
  const auto address = peer_end->address();
  Services& services = wire_.worker.services;
  std::string_view problem;
  {
    const auto place = services.handshakes.Enter(address);
    if (!place) {
      services.metrics->rejections.Add({{"reason", "handshakes"}}).Increment();
      co_return false;
    }
    problem = co_await Handshake();
  }
  if (problem.empty()) co_return true;
  services.metrics->rejections.Add({{"reason", "tls"}}).Increment();
  if (!wire_.worker.MayTellOfHandshake()) co_return false;
  const std::string peer = address.to_string();
  const std::string failed = std::to_string(wire_.worker.handshakes_failed);
  Log(LogLevel::kWarn, "a client's TLS handshake failed",
      {{"client", peer}, {"reason", problem}, {"failed_since_last_line", failed}});
  wire_.worker.handshakes_failed = 0;
  co_return false;
}

}  // namespace recourse
