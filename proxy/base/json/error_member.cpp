#include "proxy/base/json/error_member.h"

#include <string>

namespace recourse {

std::string_view ErrorTypeOf(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    // The request may be as it should be: another call, or the state of things, is in its way.
    case 409:
      return "api_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

void AddError(JsonObject& problem, std::string_view type, std::string_view code,
              std::string_view message) {
  JsonObject error(problem.Value("error"));
  error.Text("type", type);
  error.Text("code", code);
  error.Text("message", message);
}

void AddBlankProblem(JsonObject& problem, int status, std::string_view title,
                     std::string_view detail) {
  problem.Text("type", "about:blank");
  problem.Text("title", title);
  problem.Number("status", status);
  problem.Text("detail", detail);
  AddError(problem, ErrorTypeOf(status), "http-" + std::to_string(status),
           std::string(title).append(": ").append(detail));
}

}  // namespace recourse
