#include "proxy/admin/problem.h"

#include "proxy/base/json.h"

namespace recourse {

HttpResponse Problem(int status, std::string_view title, std::string_view detail) {
  std::string body = "{\"type\":\"about:blank\",\"title\":";
  AppendJsonString(body, title);
  body.append(",\"status\":").append(std::to_string(status)).append(",\"detail\":");
  AppendJsonString(body, detail);
  body.push_back('}');
  HttpResponse response{
      status, "", {{"Content-Type", "application/problem+json"}}, std::move(body)};
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace recourse
