#include "proxy/admin/access/access_control.h"

#include <algorithm>

#include "proxy/admin/access/csrf_guard.h"
#include "proxy/admin/access/key_source.h"
#include "proxy/admin/access/problem.h"
#include "proxy/admin/access/token_operator.h"
#include "proxy/base/json/json_shape.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr std::string_view kScheme = "Bearer ";
constexpr const char* kNobodyKnown =
    "the process was started without --admin-token-file and without --operators, so nobody may use "
    "the admin API: make a token, openssl rand -hex 32 > FILE, and start it again with "
    "--admin-token-file FILE";

// Who has one address of an IPv6 network has 2^64 of them: the /64 is the peer.
std::string PeerOf(const HttpPeer& peer) {
  if (!peer.address.is_v6() || peer.address.to_v6().is_v4_mapped()) return peer.address.to_string();
  const auto bytes = peer.address.to_v6().to_bytes();
  return ToHex({reinterpret_cast<const char*>(bytes.data()), 8});
}

HttpResponse TooManyFailures(Millis wait) {
  HttpResponse response =
      Problem(429, "Too many failed logins",
              "wait, or use a token of at least 32 bytes, which is always looked at");
  response.headers.emplace_back("Retry-After", std::to_string(wait.count() / 1000 + 1));
  return response;
}

// A field that decides who may do what must have one reading.
const char* DoubledField(const Headers& headers) {
  for (const char* name :
       {"Host", "Authorization", "Origin", "Sec-Fetch-Site", "X-Recourse-CSRF"}) {
    const auto count = std::count_if(headers.begin(), headers.end(), [&](const Header& field) {
      return EqualsIgnoreCase(field.first, name);
    });
    if (count > 1) return name;
  }
  return nullptr;
}

HttpResponse NoEndpoint(const std::string& methods) {
  if (methods.empty()) {
    std::string all;
    for (const Endpoint& endpoint : AdminEndpoints()) {
      all.append(all.empty() ? "" : ", ").append(endpoint.method).append(" ");
      all.append(endpoint.pattern());
    }
    return Problem(404, "Not found", "the admin API has " + all);
  }
  HttpResponse response = Problem(405, "Method not allowed", "use " + methods);
  response.headers.emplace_back("Allow", methods);
  return response;
}

namespace session_members {

struct SessionFacts {
  const Operator& who;
  std::string_view csrf;
};
constexpr JsonMember<SessionFacts> kSession[] = {
    member::Text<[](const SessionFacts& of) -> std::string_view { return of.who.name; }>("name"),
    member::Word<[](const SessionFacts& of) { return NameOf(of.who.how); }>(
        "how", R"({"type": "string", "enum": ["admin-token", "token", "jwt", "certificate"]})"),
    member::Own({"roles", "Role", "", false, /*is_list=*/true},
                [](JsonObject& json, std::string_view name, const SessionFacts& of) {
                  json.Each(name, kRoleNames, [&](std::string& out, const auto& role) {
                    if (of.who.roles.Has(role.second)) AppendJsonString(out, role.first);
                  });
                }),
    member::Texts<[](const SessionFacts& of) -> const auto& { return of.who.groups; }>("groups"),
    member::TextIfAny<[](const SessionFacts& of) { return of.csrf; }>(
        "csrf", "What X-Recourse-CSRF must say; there in a session"),
};

}  // namespace session_members
std::string SessionJson(const Operator& who, std::string_view csrf) {
  return ObjectText(
      [&](JsonObject& json) { WriteMembers(json, session_members::kSession, {who, csrf}); });
}

std::string CookieField(std::string_view value, bool is_secure) {
  std::string field = std::string(kSessionCookie) + "=" + std::string(value) +
                      "; Path=/; HttpOnly; SameSite=Strict";
  if (is_secure) field += "; Secure";
  if (value.empty()) field += "; Max-Age=0";
  return field;
}

// What a browser sends on its own, a cookie or a certificate, must not act for a foreign page.
std::string WhyForged(const AccessControl::Visit& visit, const HttpRequest& request,
                      const HttpPeer& peer) {
  const bool by_cookie = !visit.cookie.empty();
  if (!visit.endpoint->changes() || (!by_cookie && visit.who.how != Operator::How::kCertificate)) {
    return {};
  }
  const Origin origin = OriginOf(request.headers, peer.is_secure);
  if (origin == Origin::kForeign || (by_cookie && origin == Origin::kUnsaid)) {
    return "the request does not come from a page of this server (Origin, Sec-Fetch-Site); open "
           "the page under the address that it calls";
  }
  if (!by_cookie) return {};
  const std::string* const csrf = FindHeader(request.headers, kCsrfField);
  if (csrf != nullptr && ConstantTimeEqual(*csrf, visit.csrf)) return {};
  return "a change in a session needs the header X-Recourse-CSRF with the csrf of GET /session";
}

}  // namespace

std::expected<AccessControl::Visit, HttpResponse> AccessControl::Admit(const HttpRequest& request,
                                                                       const HttpPeer& peer) {
  if (const char* const name = DoubledField(request.headers)) {
    return std::unexpected(
        Problem(400, "Bad request", std::string("the field ") + name + " occurs twice"));
  }
  const std::string* const host = FindHeader(request.headers, "Host");
  if (host == nullptr || !IsOwnHost(*host, parts_.hosts)) {
    return std::unexpected(
        Problem(421, "Unknown host",
                "the admin port answers to IP addresses, to localhost and to the names that "
                "`recourse run` was given with --admin-host NAME"));
  }
  const std::string_view target = request.target;
  const auto question = target.find('?');
  const std::string_view path = target.substr(0, question);
  const std::string_view query =
      question == std::string_view::npos ? std::string_view() : target.substr(question + 1);
  const auto endpoint = FindEndpoint(request.method, path);
  if (endpoint && (*endpoint)->need == Endpoint::Need::kNobody) {
    return Visit{*endpoint, {}, path, query, {}, {}};
  }
  auto visit = Identify(request, peer);
  if (!visit) return visit;
  Complete(peer, visit->who);
  if (!endpoint) return std::unexpected(NoEndpoint(endpoint.error()));
  visit->endpoint = *endpoint;
  visit->path = path;
  visit->query = query;
  HttpResponse refused;
  if (!Allows((*endpoint)->need, visit->who.roles)) {
    const std::string role(NameOf((*endpoint)->need));
    refused = Problem(403, "Not allowed",
                      visit->who.name + " does not have the role " + role + ", which this needs; " +
                          (visit->who.is_shared() ? "name people in --operators FILE"
                                                  : "it is given in the operators file"));
  } else if (const std::string why = WhyForged(*visit, request, peer); !why.empty()) {
    refused = Problem(403, "Not from here", why);
  } else {
    return visit;
  }
  Record(*visit, peer, refused.status);
  return std::unexpected(std::move(refused));
}

std::expected<AccessControl::Visit, HttpResponse> AccessControl::Identify(
    const HttpRequest& request, const HttpPeer& peer) {
  if (const std::string* field = FindHeader(request.headers, "Authorization")) {
    return ByBearer(*field, peer);
  }
  Visit visit;
  if (ByCookie(request, peer, visit)) return visit;
  if (!peer.certificate.empty()) {
    visit.who = parts_.desk.Current()->OfCertificate(peer.certificate);
    return visit;
  }
  if (KnowsNobody(*parts_.desk.Current())) {
    return std::unexpected(Problem(401, "Nobody is known", kNobodyKnown));
  }
  return std::unexpected(
      Problem(401, kNotAuthorized,
              "this is the operators' port, and agents call the one of --listen; operators send "
              "their token: Authorization: Bearer TOKEN"));
}

void AccessControl::Complete(const HttpPeer& peer, Operator& who) {
  const auto book = parts_.desk.Current();
  if (who.how != Operator::How::kCertificate) who.certificate = peer.certificate;
  if (book->jwt) who.name_claim = book->jwt->name_claim;
  if (who.how == Operator::How::kJwt) {
    for (const std::string& group : who.groups) {
      if (groups_.size() < limits::kOperatorGroupsMax) groups_.insert(group);
    }
  }
  who.is_group_name = book->NamesGroup(who.name) || groups_.contains(who.name);
}

AccessControl::Judged AccessControl::JudgeBearer(std::string_view token) const {
  if (parts_.judge) return parts_.judge(token);
  const auto book = parts_.desk.Current();
  if (!parts_.admin_token.empty() && ConstantTimeEqual(token, parts_.admin_token)) {
    Operator who{std::string(kSharedOperator), {}, {}, Operator::How::kAdminToken};
    who.roles.Add(Role::kRead);
    who.roles.Add(Role::kRepair);
    return who;
  }
  if (auto who = book->FindToken(TokenDigest(token))) return std::move(*who);
  if (book->jwt && LooksLikeJwt(token)) return JudgeJwt(*book, token);
  return std::unexpected(
      Refusal{401, KnowsNobody(*book) ? std::string(kNobodyKnown) : "this token is not known"});
}

bool AccessControl::KnowsNobody(const OperatorDirectory& book) const {
  return !parts_.judge && parts_.admin_token.empty() && book.tokens.empty() && !book.jwt &&
         book.certificates.empty();
}

AccessControl::Judged AccessControl::JudgeJwt(const OperatorDirectory& book,
                                              std::string_view token) const {
  auto jwt = ParseJwt(token);
  if (!jwt) return std::unexpected(Refusal{401, jwt.error()});
  const auto key = book.jwt_keys->Find(*jwt);
  if (!key && key.error() == KeySource::Lack::kNotRead) {
    return std::unexpected(
        Refusal{503,
                "the issuer's keys could not be read yet, so no token of it can be judged; "
                "the log says why"});
  }
  if (!key) return std::unexpected(Refusal{401, "the issuer has no key that this token names"});
  if (!HasSignature(*jwt, *key)) return std::unexpected(Refusal{401, "the signature is wrong"});
  auto who = OperatorOf(jwt->claims, *book.jwt, parts_.clock.WallNow());
  if (!who) return std::unexpected(Refusal{401, who.error()});
  who->roles = book.RolesOf(who->groups);
  who->claims = std::make_shared<const Json>(std::move(jwt->claims));
  return std::move(*who);
}

std::expected<AccessControl::Visit, HttpResponse> AccessControl::ByBearer(std::string_view field,
                                                                          const HttpPeer& peer) {
  const bool is_bearer = EqualsIgnoreCase(field.substr(0, kScheme.size()), kScheme);
  const std::string_view token = is_bearer ? field.substr(kScheme.size()) : std::string_view();
  const bool asks_others = parts_.judge && !parts_.is_known(token);
  if (asks_others || token.size() < limits::kUnguessableBytes) {
    if (const Millis wait = gate_.WaitOf(PeerOf(peer)); wait > Millis{0}) {
      return std::unexpected(TooManyFailures(wait));
    }
  }
  auto who = is_bearer ? JudgeBearer(token)
                       : std::unexpected(Refusal{401, "use Authorization: Bearer TOKEN"});
  if (!who && asks_others && who.error().status != 401) gate_.Fail(PeerOf(peer));
  if (!who) return std::unexpected(Failed(who.error(), peer));
  return Visit{nullptr, std::move(*who), {}, {}, {}, {}, std::string(token)};
}

bool AccessControl::ByCookie(const HttpRequest& request, const HttpPeer& peer, Visit& visit) {
  for (const std::string_view cookie : CookiesOf(request.headers, kSessionCookie)) {
    const Sessions::Session* const session = sessions_.Find(cookie);
    if (session == nullptr) continue;
    if (session->credential.empty()) {
      if (peer.certificate.empty() || peer.certificate != session->certificate) continue;
      visit.who = parts_.desk.Current()->OfCertificate(peer.certificate);
    } else {
      auto who = JudgeBearer(session->credential);
      if (!who || who->name != session->name) {
        // Keys that cannot be read at the moment do not end it.
        if (who || who.error().status == 401) sessions_.End(cookie);
        continue;
      }
      visit.who = std::move(*who);
      visit.credential = session->credential;
    }
    visit.cookie = cookie;
    visit.csrf = session->csrf;
    return true;
  }
  return false;
}

HttpResponse AccessControl::Failed(const Refusal& refusal, const HttpPeer& peer) {
  if (refusal.status != 401) return Problem(refusal.status, "Not now", refusal.detail);
  const std::string from = PeerOf(peer);
  const Millis wait = gate_.WaitOf(from);
  if (const auto failed = failures_.Take(parts_.clock.Now())) {
    const std::string address = peer.address.to_string(), count = std::to_string(*failed);
    LogForAudit(
        LogLevel::kWarn, "a login at the admin port failed",
        {{"client", address}, {"reason", refusal.detail}, {"failed_since_last_line", count}});
  }
  if (wait > Millis{0}) return TooManyFailures(wait);
  gate_.Fail(from);
  return Problem(401, kNotAuthorized, refusal.detail);
}

HttpResponse AccessControl::Session(const Visit& visit, const HttpRequest& request,
                                    const HttpPeer& peer) {
  if (request.method == "POST") return BeginSession(visit, request, peer);
  if (request.method == "GET") {
    return {200, "OK", {{"Content-Type", "application/json"}}, SessionJson(visit.who, visit.csrf)};
  }
  if (visit.cookie.empty()) {
    return Problem(400, "No session", "the request came by no session cookie, so none can end");
  }
  sessions_.End(visit.cookie);
  return {204, "No Content", {{"Set-Cookie", CookieField({}, peer.is_secure)}}, {}};
}

HttpResponse AccessControl::BeginSession(const Visit& visit, const HttpRequest& request,
                                         const HttpPeer& peer) {
  if (!visit.cookie.empty()) {
    return Problem(400, "No new session",
                   "a session begins with a bearer token or a client certificate");
  }
  for (const std::string_view old : CookiesOf(request.headers, kSessionCookie)) sessions_.End(old);
  const std::string* const field = FindHeader(request.headers, "Authorization");
  const bool by_certificate = visit.who.how == Operator::How::kCertificate;
  const auto made = sessions_.Begin(
      visit.who.name, by_certificate || field == nullptr ? "" : field->substr(kScheme.size()),
      by_certificate ? peer.certificate : "");
  return {200,
          "OK",
          {{"Content-Type", "application/json"},
           {"Set-Cookie", CookieField(made.cookie, peer.is_secure)}},
          SessionJson(visit.who, made.csrf)};
}

void AccessControl::Record(const Visit& visit, const HttpPeer& peer, int status) {
  if (!visit.endpoint->changes()) return;
  const std::string action = std::string(visit.endpoint->method) + " " + visit.endpoint->pattern();
  const std::string result = std::to_string(status), address = peer.address.to_string();
  LogForAudit(LogLevel::kInfo, "an operator's order",
              {{"operator", visit.who.name},
               {"how", NameOf(visit.who.how)},
               {"action", action},
               {"target", visit.path},
               {"status", result},
               {"client", address}});
}

JsonShape SessionShape() { return {"Session", "", DocsOf(session_members::kSession)}; }

}  // namespace recourse
