// An address proves nothing: what the client says picks the backend or the tunnel, which are then
// dialled as the policy names them. An address is dialled only where the policy lists it as such.
#include "proxy/exchange/request_target.h"

#include "policy/model/tunnel_decision.h"
#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

constexpr std::uint16_t kHttpPort = 80;
constexpr std::uint16_t kHttpsPort = 443;

std::string WhyOutsideTunnel(const TunnelTarget& inside, const Head& head) {
  const Authority& target = inside.target;
  const bool is_absolute = head.form == TargetForm::kAbsolute;
  const std::string_view named = is_absolute ? head.authority : head.host;
  if (named.empty()) return {};
  const bool is_https = is_absolute && (head.target[4] | 0x20) == 's';
  const auto authority = ParseAuthority(named);
  const bool is_same_scheme = !is_absolute || is_https == (inside.scheme_port == 443);
  if (authority && is_same_scheme && authority->host == target.host &&
      (authority->port == 0 ? inside.scheme_port : authority->port) == target.port) {
    return {};
  }
  return "this tunnel leads to " + AuthorityText(target, 0) +
         ", and the request in it is for another host, port or scheme";
}

std::string WhyOtherPort(const Tcp::endpoint& original, const Head& head) {
  const bool is_absolute = head.form == TargetForm::kAbsolute;
  const bool is_https = is_absolute && (head.target[4] | 0x20) == 's';
  const std::string_view text = is_absolute ? head.authority : head.host;
  const auto named = ParseAuthority(text);
  if (!named) return {};  // no backend has such a name
  const std::uint16_t port = named->port != 0 ? named->port : (is_https ? kHttpsPort : kHttpPort);
  if (port == original.port()) return {};
  return "the request is for port " + std::to_string(port) + " of '" + named->host +
         "', and its connection was made to port " + std::to_string(original.port()) +
         "; name the port that is connected to in the Host field, and use a connection of its own "
         "for each host";
}

}  // namespace

Authority AuthorityOf(const Tcp::endpoint& endpoint) {
  return {endpoint.address().to_string(), endpoint.port()};
}

Authority RedirectedTarget(const Tcp::endpoint& original, const ProtocolDetection& first) {
  if (first.server_name.empty()) return AuthorityOf(original);
  return {first.server_name, original.port()};
}

std::string RedirectedAuthority(const Tcp::endpoint& original, const Head& head) {
  const bool is_absolute = head.form == TargetForm::kAbsolute;
  auto named = ParseAuthority(is_absolute ? head.authority : head.host);
  if (!named) return {};
  named->port = original.port();
  return AuthorityText(*named, kHttpPort);
}

std::string WhyMisdirected(const Ingress& ingress, const Head& head) {
  if (ingress.inside) return WhyOutsideTunnel(*ingress.inside, head);
  return ingress.original ? WhyOtherPort(*ingress.original, head) : std::string();
}

}  // namespace recourse
