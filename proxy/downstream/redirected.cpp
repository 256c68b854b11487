// Redirected connections: their clients know nothing of a proxy. Where such a client wanted to is
// an address; whom it wanted there is what it says, in Host or SNI. What it says picks the backend
// or the tunnel, which are then dialled as the policy names them: an address proves nothing, and is
// dialled only where the policy lists it as such.
#include "proxy/exchange/session.h"

namespace recourse {
namespace {

constexpr std::uint16_t kHttpPort = 80;
constexpr std::uint16_t kHttpsPort = 443;

}  // namespace

Authority AuthorityOf(const Tcp::endpoint& endpoint) {
  return {endpoint.address().to_string(), endpoint.port()};
}

Authority Session::RedirectedTarget(const FirstBytes& first) const {
  if (first.server_name.empty()) return AuthorityOf(*original_);
  return {first.server_name, original_->port()};
}

std::string Session::RedirectedAuthority() const {
  const bool is_absolute = head_.form == TargetForm::kAbsolute;
  auto named = ParseAuthority(is_absolute ? head_.authority : head_.host);
  if (!named) return {};
  named->port = original_->port();
  return AuthorityText(*named, kHttpPort);
}

std::string Session::WhyElsewhere() const {
  const bool is_absolute = head_.form == TargetForm::kAbsolute;
  const bool is_https = is_absolute && (head_.target[4] | 0x20) == 's';
  const std::string_view text = is_absolute ? head_.authority : head_.host;
  const auto named = ParseAuthority(text);
  if (!named) return {};  // no backend has such a name
  const std::uint16_t port = named->port != 0 ? named->port : (is_https ? kHttpsPort : kHttpPort);
  if (port == original_->port()) return {};
  return "the request is for port " + std::to_string(port) + " of '" + named->host +
         "', and its connection was made to port " + std::to_string(original_->port()) +
         "; name the port that is connected to in the Host field, and use a connection of its own "
         "for each host";
}

Task<bool> Session::TunnelRedirected(std::string authority) {
  const auto target = ParseAuthority(authority);
  if (!target) {
    co_return co_await Refuse(ErrorCode::kUnknownBackend,
                              "the Host '" + authority + "' names no host");
  }
  const Authority named{target->host, original_->port()};
  record_.authority = AuthorityText(named, 0);
  TunnelDecision decision = DecideTunnel(*view_->policy, named, Heard{ClientOpening::kHttp, {}});
  if (decision.act == TunnelDecision::Act::kTunnel) {
    co_return co_await RunBlindTunnel(named, std::move(decision), Told::kYes);
  }
  CountTunnel("refused");
  linger_ = true;
  co_return co_await Refuse(ErrorCode::kUnknownBackend, std::move(decision.reason));
}

}  // namespace recourse
