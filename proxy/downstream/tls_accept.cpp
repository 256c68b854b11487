// The TLS handshake of an agent's connection, before anything of HTTP.
#include "proxy/base/log/log.h"
#include "proxy/exchange/session.h"

namespace recourse {

// Empty when the connection is secure and the caller known, else why not.
Task<std::string_view> Session::Handshake() {
  const std::shared_ptr<const TlsServer> server = worker_.tls;
  client_.tls = TlsServer::NewStream(server, client_.socket());
  if (client_.tls == nullptr) co_return "OpenSSL cannot make a TLS connection";
  switch (co_await ShakeHands()) {
    case Shaken::kSlow:
      co_return "the handshake took too long";
    case Shaken::kFailed:
      co_return client_.tls->ClientProblem();
    case Shaken::kDone:
      break;
  }
  if (!server->identifies()) co_return "";
  auto caller = CallerOf(*client_.tls);
  if (!caller) co_return "the client's certificate names no identity that can be used";
  identity_ = std::move(*caller);
  is_certified_ = true;
  caller_ = identity_;
  co_return "";
}

// Until the deadline that is armed.
Task<Session::Shaken> Session::ShakeHands() {
  for (;;) {
    const TlsStep step = client_.tls->Handshake();
    if (step.error) co_return Shaken::kFailed;
    if (step.want == TlsWant::kNothing) break;
    if (!co_await WaitForTls(client_, step.want)) co_return Shaken::kSlow;
  }
  client_.deadline.Disarm();
  co_return Shaken::kDone;
}

// At most one line a second tells of what anybody can make happen.
bool Session::MayLogHandshake() {
  ++worker_.handshakes_failed;
  if (Now() < worker_.next_handshake_log) return false;
  worker_.next_handshake_log = Now() + std::chrono::seconds(1);
  return true;
}

// Waits for the first bytes, which cost nothing but the connection's place.
Task<bool> Session::IsSpokenTo() {
  client_.deadline.Arm(Now() + limits::kTlsHandshakeTimeout);
  idle_ = true;
  worker_.idle.Add(*this, /*has_asked=*/false);
  const bool readable = co_await WaitReadable(client_);
  idle_ = false;
  unlink();
  co_return readable && !leaving_;
}

Task<bool> Session::AcceptTls() {
  const auto peer_end = PeerEnd(client_.socket());
  if (!peer_end || !co_await IsSpokenTo()) co_return false;
  const auto address = peer_end->address();
  std::string_view problem;
  {
    const auto place = services_.handshakes.Enter(address);
    if (!place) {
      services_.metrics->rejections.Add({{"reason", "handshakes"}}).Increment();
      co_return false;
    }
    problem = co_await Handshake();
  }
  if (problem.empty()) co_return true;
  services_.metrics->rejections.Add({{"reason", "tls"}}).Increment();
  if (!MayLogHandshake()) co_return false;
  const std::string peer = address.to_string();
  const std::string failed = std::to_string(worker_.handshakes_failed);
  Log(LogLevel::kWarn, "a client's TLS handshake failed",
      {{"client", peer}, {"reason", problem}, {"failed_since_last_line", failed}});
  worker_.handshakes_failed = 0;
  co_return false;
}

}  // namespace recourse
