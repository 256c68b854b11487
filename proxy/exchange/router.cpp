#include "proxy/exchange/router.h"

#include <algorithm>
#include <charconv>

#include "filters/call/poll_token.h"
#include "proxy/base/http/own_port.h"
#include "proxy/exchange/head_judgement.h"
#include "proxy/exchange/request_facts.h"
#include "proxy/exchange/request_target.h"

namespace recourse {
namespace {

// They reflect or expose what a server got.
bool IsRefusedMethod(std::string_view method) {
  return method == "TRACE" || method == "TRACK" || method == "DEBUG";
}

bool SeesOwnVia(const Head& head, std::string_view via) {
  if (!head.Has(FieldId::kVia)) return false;
  const std::string_view pseudonym = via.substr(via.find(' ') + 1);
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.id == FieldId::kVia && field.value.find(pseudonym) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

bool Names(const Tool& tool, std::string_view method) {
  return std::find(tool.methods.begin(), tool.methods.end(), method) != tool.methods.end();
}

const std::string kAllMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

std::string AllowOf(const Tool& tool) {
  if (Names(tool, "*")) return kAllMethods;
  std::string allow;
  for (const std::string& method : tool.methods) allow += (allow.empty() ? "" : ", ") + method;
  return allow;
}

// RFC 9110 7.6.2; -1: there is none. Fails when it is not one number.
std::optional<int> TakeMaxForwards(const Head& head) {
  int hops = -1;
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.id != FieldId::kMaxForwards) continue;
    const char* const end = field.value.data() + field.value.size();
    const bool is_first = hops == -1;
    const auto [after, ec] = std::from_chars(field.value.data(), end, hops);
    if (!is_first || ec != std::errc() || after != end || hops < 0) return std::nullopt;
  }
  return hops;
}

// What was sent over TLS goes on over TLS, also when another policy came in between.
Task<bool> RefuseChanged(Exchange& exchange) {
  exchange.reply.Linger(true);
  co_await Refuse(exchange, ErrorCode::kMisdirected,
                  "the policy has changed, and TLS to this host is not looked into any more; "
                  "connect again");
  co_return false;
}

// Those below only choose; what they return does the work.
Task<bool> ServePath(Exchange& exchange, const Lanes& lanes) {
  ServedRequest& request = exchange.request;
  Route& route = request.route;
  const Head& head = request.head;
  const Backend& backend = *route.place.backend;
  request.record.backend = &backend;
  if (route.place.where == EndpointPath::kExact) {
    return lanes.endpoints.Of(backend).Run(exchange);
  }
  const Policy& policy = request.policy();
  const auto found =
      policy.routes->Match(backend, head.method, route.path, route.scratch, route.match);
  if (found) request.record.tool = route.match.tool;
  if (const auto refusal =
          RefusalOfHead(policy, head, route.place, route.query, found, route.match)) {
    const bool has_other_methods = refusal->code() == ErrorCode::kMethodNotAllowed;
    return Refuse(exchange, refusal->code(), refusal->detail(),
                  has_other_methods ? AllowOf(*route.match.tool) : std::string());
  }
  const bool listed = route.match.tool != nullptr;
  route.is_guarded = listed || route.match.unlisted == UnlistedRule::kGuard || HasFlowOrder(head);
  if (HasFlowOrder(head)) {
    request.record.effect = "write";
    return lanes.write.Run(exchange);
  }
  if (IsQuestionAboutWrite(head, route.match)) {
    return ReplyOptions(exchange, AllowOf(*route.match.tool));
  }
  if (!listed) {
    request.worker.unlisted.Count(backend, route.match.effect, head.method, route.path);
  }
  const bool is_read = route.match.effect == Effect::kRead;
  request.record.effect = is_read ? "read" : "write";
  return (is_read ? lanes.read : lanes.write).Run(exchange);
}

Task<bool> ServeAuthority(Exchange& exchange, const Lanes& lanes, std::string_view authority) {
  ServedRequest& request = exchange.request;
  const Ingress& ingress = request.ingress;
  const Policy& policy = request.policy();
  Route& route = request.route;
  const Head& head = request.head;
  const bool is_https =
      head.form == TargetForm::kAbsolute ? (head.target[4] | 0x20) == 's' : ingress.is_secure;
  const std::uint16_t usual = is_https && !ingress.original ? 443 : 80;
  route.place = request.view->last_host.Place(
      authority, ingress.inside ? ingress.inside->scheme_port : usual, route.path);
  const Backend* const backend = route.place.backend;
  if (ingress.is_intercepted && (backend == nullptr || !policy.routes->Intercepts(*backend))) {
    return RefuseChanged(exchange);
  }
  if (backend == nullptr && ingress.original && !ingress.inside) {
    return lanes.tunnel.RunRedirected(exchange, std::string(authority));
  }
  if (backend == nullptr) {
    return Refuse(exchange, ErrorCode::kUnknownBackend,
                  "no backend of the policy has the authority '" + std::string(authority) +
                      "'; add it to a backend's url or hosts");
  }
  route.is_observed = policy.mode == Mode::kObserve;
  return route.is_observed ? lanes.observe.Run(exchange) : ServePath(exchange, lanes);
}

Task<bool> ReplyPort(Exchange& exchange) {
  const HttpResponse answer = PortAnswer(kAgentsPort);
  co_return co_await ReplyHere(exchange, answer, /*understood=*/true);
}

// "http://host" without a path is how "*" is asked through a proxy (RFC 9112 3.2.4).
bool IsAboutServer(const Head& head) {
  return head.form == TargetForm::kAsterisk ||
         (head.form == TargetForm::kAbsolute && head.authority.end() == head.target.end());
}

}  // namespace

Task<bool> ServeRequest(Exchange& exchange, const Lanes& lanes) {
  ServedRequest& request = exchange.request;
  const Ingress& ingress = request.ingress;
  Route& route = request.route;
  const Head& head = request.head;
  if (IsRefusedMethod(head.method)) {
    exchange.reply.Linger(true);
    return Refuse(exchange, ErrorCode::kMethodNotAllowed,
                  std::string(head.method) + " is not served by this listener", kAllMethods);
  }
  if (SeesOwnVia(head, request.services.via)) {
    return Refuse(exchange, ErrorCode::kLoop, "the request has already passed this proxy");
  }
  if (head.method == "CONNECT") return lanes.tunnel.Run(exchange);
  const Policy& policy = request.policy();
  if (policy.callers.names_any()) {
    request.caller.Identify(policy.callers, head, request.services.clock->WallNow());
    request.record.caller = request.caller.name();
  }
  if (std::string reason = WhyMisdirected(ingress, head); !reason.empty()) {
    // Who was redirected does not know of a proxy that could refuse a Host.
    const bool only_says_so = ingress.original && !ingress.inside && policy.mode == Mode::kObserve;
    if (!only_says_so) return Refuse(exchange, ErrorCode::kMisdirected, std::move(reason));
    request.record.decision = "would-refuse";
  }
  route.forwards_left = -1;
  if (head.method == "OPTIONS") {
    const auto hops = TakeMaxForwards(head);
    if (!hops) {
      return Refuse(exchange, ErrorCode::kMalformedRequest, "Max-Forwards is not one number");
    }
    if (IsAboutServer(head) || *hops == 0) return ReplyOptions(exchange, kAllMethods);
    route.forwards_left = *hops < 0 ? -1 : *hops - 1;
  }
  // An absolute target's authority wins over Host (RFC 9112 3.2.2).
  const bool is_absolute = head.form == TargetForm::kAbsolute;
  const std::string named = ingress.inside
                                ? AuthorityText(ingress.inside->target, ingress.inside->scheme_port)
                            : ingress.original ? RedirectedAuthority(*ingress.original, head)
                                               : std::string();
  const std::string_view authority = !named.empty() ? std::string_view(named)
                                     : is_absolute  ? head.authority
                                                    : head.host;
  request.record.host_differs =
      is_absolute && !head.host.empty() && !EqualsIgnoreCase(head.host, head.authority);
  route.query = QueryOf(head);
  route.path = head.path.substr(0, head.path.size() - route.query.size());
  // What goes through us to somewhere else asks that.
  const bool is_asked_here = !is_absolute && !ingress.original && !ingress.inside;
  if (route.path == kPortPath && head.method == "GET" && is_asked_here) {
    return ReplyPort(exchange);
  }
  if (route.path.starts_with(kPollPath) && policy.mode == Mode::kEnforce) {
    return lanes.poll.Run(exchange);
  }
  return ServeAuthority(exchange, lanes, authority);
}

}  // namespace recourse
