// TLS of an agent that ends here although it is meant for a backend: the handshake inside of a
// tunnel, with a certificate of the pod's CA.
#include "proxy/base/log/log.h"
#include "proxy/exchange/session.h"

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

// The rest of the handshake whose beginning is in `in_`. What the backend's own certificate is like
// is found out by the first request, and told as an answer.
Task<bool> Session::Intercept(Authority target) {
  inside_ = {std::move(target), 443};
  auto leaf = services_.minter->For(inside_->target.host);
  if (!leaf) {
    co_return NoteInterception(inside_->target, "no_certificate", leaf.error(), "see --ca");
  }
  const auto peer = PeerEnd(client_.socket());
  const auto place = services_.handshakes.Enter(peer ? peer->address() : ConnectionGate::Address());
  if (!peer || !place) {
    co_return NoteInterception(inside_->target, "crowded", "too many handshakes at once",
                               "repeat it later");
  }
  const int socket = client_.socket();
  client_.tls = TlsServer::NewStreamInside(*leaf, socket, std::move(client_.tls), in_.unread());
  if (client_.tls == nullptr) {
    co_return NoteInterception(inside_->target, "other", "OpenSSL cannot make a TLS connection",
                               "see its memory");
  }
  in_.Consume(in_.unread().size());
  client_.deadline.Arm(Now() + limits::kTlsHandshakeTimeout);
  const Shaken shaken = co_await ShakeHands();
  if (shaken == Shaken::kSlow) {
    co_return NoteInterception(inside_->target, "slow", "the handshake took too long",
                               "see the client");
  }
  if (shaken == Shaken::kFailed) {
    const Failure failure = FailureOf(client_.tls->WhyClientFailed());
    co_return NoteInterception(inside_->target, failure.result, client_.tls->ClientProblem(),
                               failure.advice);
  }
  intercepted_at_ = served_;
  co_return true;
}

bool Session::NoteInterception(const Authority& target, std::string_view result,
                               std::string_view reason, std::string_view advice) {
  CountInterception(result);
  if (!MayLogHandshake()) return false;
  const std::string failed = std::to_string(worker_.handshakes_failed);
  Log(LogLevel::kWarn, "a client's TLS to an intercepted host failed",
      {{"target", AuthorityText(target, 0)},
       {"result", result},
       {"reason", reason},
       {"advice", advice},
       {"failed_since_last_line", failed}});
  worker_.handshakes_failed = 0;
  return false;
}

void Session::CountInterception(std::string_view result) {
  services_.metrics->interceptions.Add({{"result", std::string(result)}}).Increment();
}

void Session::EndInterception() {
  if (served_ > *intercepted_at_ || services_.draining) return;
  NoteInterception(inside_->target, "unused", "the client went away before its first request",
                   kTrustAdvice);
}

}  // namespace recourse
