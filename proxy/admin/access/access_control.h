// Everybody's way into the admin port: who it is, whether they may, and what is written down.
#pragma once

#include <expected>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/admin/access/endpoints.h"
#include "proxy/admin/access/login_rate_limiter.h"
#include "proxy/admin/access/operator_store.h"
#include "proxy/admin/access/sessions.h"
#include "proxy/base/json/json_shape.h"
#include "proxy/base/line_pace.h"
#include "proxy/net/beast/http_server.h"

namespace recourse {

inline constexpr std::string_view kSessionCookie = "recourse_session";
inline constexpr std::string_view kCsrfField = "X-Recourse-CSRF";

// One thread, that of the admin port. Blocks for an issuer's keys, see UrlKeys.
class AccessControl {
 public:
  // The status of the answer with its detail.
  struct Refusal {
    int status = 401;
    std::string detail;
  };
  using Judged = std::expected<Operator, Refusal>;
  struct Parts {
    const OperatorStore& desk;
    const Clock& clock;
    Random& random;
    std::string admin_token;         // of --admin-token-file; empty: there is none
    std::vector<std::string> hosts;  // of --admin-host
    // Set: others know whose a token is, and nobody is known here.
    std::function<Judged(std::string_view token)> judge = {};
    // With it: whether they know it already. About others so few are asked as may be guessed.
    std::function<bool(std::string_view token)> is_known = {};
  };
  explicit AccessControl(Parts parts)
      : parts_(std::move(parts)), gate_(parts_.clock), sessions_(parts_.clock, parts_.random) {}

  // A request that may be done.
  struct Visit {
    const Endpoint* endpoint = nullptr;
    Operator who;                  // without a name where the endpoint needs nobody
    std::string_view path, query;  // of the request's target
    std::string cookie, csrf;      // of the session that it came by; empty: by none
    std::string credential{};      // the token that was shown, here or for the session
  };
  // Else the answer: 400, 401, 403, 404, 405, 421, 429 or 503, each with what to do.
  std::expected<Visit, HttpResponse> Admit(const HttpRequest& request, const HttpPeer& peer);

  // GET, POST and DELETE /session.
  HttpResponse Session(const Visit& visit, const HttpRequest& request, const HttpPeer& peer);

  // One line of the log for a visit that changes something, with what came of it.
  static void Record(const Visit& visit, const HttpPeer& peer, int status);

 private:
  std::expected<Visit, HttpResponse> Identify(const HttpRequest& request, const HttpPeer& peer);
  // What else is known of who comes over that connection.
  void Complete(const HttpPeer& peer, Operator& who);
  Judged JudgeBearer(std::string_view token) const;
  // Nobody may come in, whatever they show.
  bool KnowsNobody(const OperatorDirectory& book) const;
  Judged JudgeJwt(const OperatorDirectory& book, std::string_view token) const;
  std::expected<Visit, HttpResponse> ByBearer(std::string_view field, const HttpPeer& peer);
  bool ByCookie(const HttpRequest& request, const HttpPeer& peer, Visit& visit);
  HttpResponse Failed(const Refusal& refusal, const HttpPeer& peer);
  HttpResponse BeginSession(const Visit& visit, const HttpRequest& request, const HttpPeer& peer);

  const Parts parts_;
  LoginRateLimiter gate_;
  Sessions sessions_;
  LinePace failures_;             // lines of the log about logins that failed
  std::set<std::string> groups_;  // of tokens that came, so many as kOperatorGroupsMax
};

// Of what GET and POST /session answer.
JsonShape SessionShape();

}  // namespace recourse
