#include "proxy/exchange/pick.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "filters/call/poll_token.h"
#include "policy/model/tunnel_decision.h"
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

// "http://host" without a path is how "*" is asked through a proxy (RFC 9112 3.2.4).
bool IsAboutServer(const Head& head) {
  return head.form == TargetForm::kAsterisk ||
         (head.form == TargetForm::kAbsolute && head.authority.end() == head.target.end());
}

void Refuse(Pick& pick, ErrorCode code, std::string detail, std::string allow = {}) {
  pick.to = Pick::To::kRefuse;
  pick.code = code;
  pick.detail = std::move(detail);
  pick.allow = std::move(allow);
}

void PickOnPath(const Asked& asked, Route& route, Pick& pick) {
  const Head& head = asked.head;
  const Backend& backend = *route.place.backend;
  pick.backend = &backend;
  if (route.place.where == EndpointPath::kExact) {
    pick.to = Pick::To::kEndpoint;
    return;
  }
  const Policy& policy = asked.policy;
  const auto found =
      policy.routes->Match(backend, head.method, route.path, route.scratch, route.match);
  if (found) pick.tool = route.match.tool;
  if (const auto refusal =
          RefusalOfHead(policy, head, route.place, route.query, found, route.match)) {
    const bool has_other_methods = refusal->code() == ErrorCode::kMethodNotAllowed;
    Refuse(pick, refusal->code(), refusal->detail(),
           has_other_methods ? AllowOf(*route.match.tool) : std::string());
    return;
  }
  const bool listed = route.match.tool != nullptr;
  const bool orders_flow = HasFlowOrder(head);
  route.is_guarded = listed || route.match.unlisted == UnlistedRule::kGuard || orders_flow;
  if (!orders_flow && IsQuestionAboutWrite(head, route.match)) {
    pick.to = Pick::To::kOptions;
    pick.allow = AllowOf(*route.match.tool);
    return;
  }
  pick.is_unlisted = !listed && !orders_flow;
  const bool is_read = !orders_flow && route.match.effect == Effect::kRead;
  pick.to = is_read ? Pick::To::kRead : Pick::To::kWrite;
}

void PickAtAuthority(const Asked& asked, std::string_view authority, Route& route, Pick& pick) {
  const Ingress& ingress = asked.ingress;
  const Policy& policy = asked.policy;
  const Head& head = asked.head;
  const bool is_https =
      head.form == TargetForm::kAbsolute ? (head.target[4] | 0x20) == 's' : ingress.is_secure;
  const std::uint16_t usual = is_https && !ingress.original ? 443 : 80;
  route.place = asked.hosts.Place(authority, ingress.inside ? ingress.inside->scheme_port : usual,
                                  route.path);
  const Backend* const backend = route.place.backend;
  if (ingress.is_intercepted && (backend == nullptr || !policy.routes->Intercepts(*backend))) {
    // What was sent over TLS goes on over TLS, also when another policy came in between.
    pick.lingers = pick.ends_connection = true;
    Refuse(pick, ErrorCode::kMisdirected,
           "the policy has changed, and TLS to this host is not looked into any more; connect "
           "again");
    return;
  }
  if (backend == nullptr && ingress.original && !ingress.inside) {
    pick.to = Pick::To::kRedirected;
    pick.detail = authority;
    return;
  }
  if (backend == nullptr) {
    Refuse(pick, ErrorCode::kUnknownBackend,
           "no backend of the policy has the authority '" + std::string(authority) +
               "'; add it to a backend's url or hosts");
    return;
  }
  route.is_observed = policy.mode == Mode::kObserve;
  if (route.is_observed) {
    pick.to = Pick::To::kObserve;
  } else {
    PickOnPath(asked, route, pick);
  }
}

// OPTIONS, which may be meant for us. True: it goes no further.
bool PickOptions(const Head& head, Route& route, Pick& pick) {
  const auto hops = TakeMaxForwards(head);
  if (!hops) {
    Refuse(pick, ErrorCode::kMalformedRequest, "Max-Forwards is not one number");
    return true;
  }
  if (IsAboutServer(head) || *hops == 0) {
    pick.to = Pick::To::kOptions;
    pick.allow = kAllMethods;
    return true;
  }
  route.forwards_left = *hops < 0 ? -1 : *hops - 1;
  return false;
}

// Whom it may be for at all. True: it goes no further.
bool PickByIngress(const Asked& asked, Pick& pick) {
  const Head& head = asked.head;
  if (IsRefusedMethod(head.method)) {
    pick.lingers = true;
    Refuse(pick, ErrorCode::kMethodNotAllowed,
           std::string(head.method) + " is not served by this listener", kAllMethods);
    return true;
  }
  if (SeesOwnVia(head, asked.via)) {
    Refuse(pick, ErrorCode::kLoop, "the request has already passed this proxy");
    return true;
  }
  if (head.method == "CONNECT") {
    pick.to = Pick::To::kConnect;
    return true;
  }
  pick.names_caller = true;
  const Ingress& ingress = asked.ingress;
  std::string reason = WhyMisdirected(ingress, head);
  if (reason.empty()) return false;
  // Who was redirected does not know of a proxy that could refuse a Host.
  pick.would_refuse = ingress.original && !ingress.inside && asked.policy.mode == Mode::kObserve;
  if (!pick.would_refuse) Refuse(pick, ErrorCode::kMisdirected, std::move(reason));
  return !pick.would_refuse;
}

}  // namespace

Pick PickLane(const Asked& asked, Route& route) {
  Pick pick;
  if (PickByIngress(asked, pick)) return pick;
  const Head& head = asked.head;
  const Ingress& ingress = asked.ingress;
  route.forwards_left = -1;
  if (head.method == "OPTIONS" && PickOptions(head, route, pick)) return pick;
  // An absolute target's authority wins over Host (RFC 9112 3.2.2).
  const bool is_absolute = head.form == TargetForm::kAbsolute;
  const std::string named = ingress.inside
                                ? AuthorityText(ingress.inside->target, ingress.inside->scheme_port)
                            : ingress.original ? RedirectedAuthority(*ingress.original, head)
                                               : std::string();
  const std::string_view authority = !named.empty() ? std::string_view(named)
                                     : is_absolute  ? head.authority
                                                    : head.host;
  pick.host_differs =
      is_absolute && !head.host.empty() && !EqualsIgnoreCase(head.host, head.authority);
  route.query = QueryOf(head);
  route.path = head.path.substr(0, head.path.size() - route.query.size());
  // What goes through us to somewhere else asks that.
  const bool is_asked_here = !is_absolute && !ingress.original && !ingress.inside;
  if (route.path == kPortPath && head.method == "GET" && is_asked_here) {
    pick.to = Pick::To::kPort;
  } else if (route.path.starts_with(kPollPath) && asked.policy.mode == Mode::kEnforce) {
    pick.to = Pick::To::kPoll;
  } else {
    PickAtAuthority(asked, authority, route, pick);
  }
  return pick;
}

}  // namespace recourse
