#include "proxy/admin/access/problem.h"

#include "proxy/base/json/error_member.h"

namespace recourse {

HttpResponse JsonAnswer(std::string body) {
  return {200, "OK", {{"Content-Type", "application/json"}}, std::move(body)};
}

HttpResponse Problem(int status, std::string_view title, std::string_view detail) {
  HttpResponse response{status, "", {{"Content-Type", "application/problem+json"}}, {}};
  {
    JsonObject json(response.body);
    AddBlankProblem(json, {.status = status, .title = title, .detail = detail});
  }
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

HttpResponse NoLedger(std::string_view detail) {
  return Problem(503, "Event log unavailable", detail);
}

HttpResponse NoPods() {
  return Problem(400, "Bad parameter", "the ledger is of this process alone: there are no pods");
}

}  // namespace recourse
