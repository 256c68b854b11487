#include "proxy/exchange/exchange.h"

#include "filters/call/answers.h"

namespace recourse {
namespace {

// RFC 9110 11.6.1: a 401 names a scheme.
std::string ChallengeOf(const CallersRule& rule) {
  return rule.jwt && EqualsIgnoreCase(rule.jwt->field, "authorization") ? "Bearer" : "Recourse";
}

}  // namespace

Task<bool> Refuse(Exchange& exchange, ErrorCode code, std::string detail, std::string allow) {
  exchange.request.record.error = FactsOf(code).slug;
  WriteAnswer problem = MakeProblem(code, std::move(detail));
  if (code == ErrorCode::kCallerUnknown) {
    problem.response.headers.emplace_back("WWW-Authenticate",
                                          ChallengeOf(exchange.request.policy().callers));
  }
  if (!allow.empty()) problem.response.headers.emplace_back("Allow", std::move(allow));
  co_return co_await ReplyHere(exchange, problem.response, !EndsConnection(code));
}

// Said by us alone, so that no effect of a backend hangs on it.
Task<bool> ReplyOptions(Exchange& exchange, std::string allow) {
  HttpResponse response;
  response.status = 204;
  response.reason = "No Content";
  response.headers.emplace_back("Allow", std::move(allow));
  co_return co_await ReplyHere(exchange, response, /*understood=*/true);
}

Task<bool> ReplyHere(Exchange& exchange, const HttpResponse& response, bool understood) {
  const ServedRequest& request = exchange.request;
  // An unread body would be taken for the next request: close instead of guessing.
  const bool readable = !request.record.method.empty() && request.head.body == BodyKind::kNone;
  const bool keep = readable && !exchange.reply.lingers() && request.head.keep_alive && understood;
  if (keep) exchange.body.Skip();
  if (!keep) exchange.reply.Linger(true);
  co_return co_await exchange.reply.Send(response, keep);
}

}  // namespace recourse
