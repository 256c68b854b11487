#include "proxy/server/admin.h"

#include <charconv>

#include "proxy/base/hash.h"
#include "proxy/base/json.h"
#include "proxy/base/limits.h"
#include "proxy/server/event_json.h"

namespace recourse {
namespace {

HttpResponse JsonAnswer(std::string body) {
  return {200, "OK", {{"Content-Type", "application/json"}}, std::move(body)};
}

HttpResponse Text(int status, std::string body) {
  return {status, "", {{"Content-Type", "text/plain; charset=utf-8"}}, std::move(body)};
}

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

bool ParseNumber(std::string_view text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

bool AdminApi::Authorized(const HttpRequest& request) const {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string* field = FindHeader(request.headers, "Authorization");
  if (token_.empty() || field == nullptr) return false;
  const std::string_view value = *field;
  return EqualsIgnoreCase(value.substr(0, kScheme.size()), kScheme) &&
         ConstantTimeEqual(value.substr(kScheme.size()), token_);
}

HttpResponse AdminApi::Handle(const HttpRequest& request) {
  if (!Authorized(request)) {
    return Problem(401, "Not authorized",
                   token_.empty() ? "the server was started without --admin-token-file, so nobody "
                                    "may use the admin API"
                                  : "send the token of --admin-token-file as a bearer token");
  }
  const std::string_view target = request.target;
  const auto question = target.find('?');
  const std::string_view path = target.substr(0, question);
  const std::string_view query =
      question == std::string_view::npos ? std::string_view() : target.substr(question + 1);
  constexpr std::string_view kEvent = "/events/";
  if (path == "/ledger/verify") {
    if (request.method != "POST") return Problem(405, "Method not allowed", "use POST");
    return JsonAnswer(ToJson(ledger_.Verify()));
  }
  const bool known = path == "/events" || path.starts_with(kEvent) || path == "/version";
  if (!known) {
    return Problem(404, "Not found",
                   "the admin API has /events, /events/{id}, /ledger/verify and /version");
  }
  if (request.method != "GET") return Problem(405, "Method not allowed", "use GET");
  if (path == "/events") return ListEvents(query);
  if (path == "/version") {
    return JsonAnswer(std::string("{\"version\":\"") + RECOURSE_VERSION +
                      "\",\"policy_version\":\"" + policy_version_ + "\"}");
  }
  return ShowEvent(path.substr(kEvent.size()));
}

HttpResponse AdminApi::ListEvents(std::string_view query) {
  EventFilter filter;
  for (const auto& [name, value] : ParsePairs(query)) {
    std::uint64_t number = 0;
    bool good = true;
    std::string_view accepted = "a number";
    if (name == "trace") {
      filter.trace_id = value;
    } else if (name == "tool") {
      filter.tool = value;
    } else if (name == "status") {
      good = (filter.status = StatusFromName(value)).has_value();
      accepted = "PENDING, SUCCESS, FAILED or COMPENSATED (for UNCERTAIN ask by phase)";
    } else if (name == "phase") {
      good = (filter.phase = PhaseFromName(value)).has_value();
      accepted = "a phase such as DISPATCHING, UNCERTAIN or SUCCEEDED";
    } else if (name == "operation") {
      good = ParseNumber(value, number);
      filter.operation = number;
    } else if (name == "after") {
      good = ParseNumber(value, filter.after);
    } else if (name == "limit") {
      good = ParseNumber(value, number) && number > 0 && number <= limits::kAdminPageMax;
      filter.limit = static_cast<std::size_t>(number);
    } else {
      return Problem(400, "Unknown parameter",
                     "'" + name +
                         "' is not one of trace, tool, status, phase, operation, after, "
                         "limit");
    }
    if (!good) {
      return Problem(
          400, "Bad parameter",
          "'" + value + "' is no value for " + name + "; accepted: " + std::string(accepted));
    }
  }
  auto page = ledger_.List(filter);
  if (!page) return Problem(503, "Event log unavailable", page.error().detail());
  std::string body = "{\"events\":[";
  for (const Event& event : page->events) {
    if (body.back() == '}') body.push_back(',');
    AppendEvent(body, event);
  }
  body.append("],\"next\":");
  body.append(page->more && !page->events.empty() ? std::to_string(page->events.back().id)
                                                  : "null");
  body.push_back('}');
  return JsonAnswer(std::move(body));
}

HttpResponse AdminApi::ShowEvent(std::string_view id) {
  std::uint64_t number = 0;
  if (!ParseNumber(id, number)) return Problem(400, "Bad event id", "an event id is a number");
  auto event = ledger_.Find(number);
  if (!event) return Problem(503, "Event log unavailable", event.error().detail());
  if (!*event) return Problem(404, "No such event", "no event has this id");
  std::string body;
  AppendEvent(body, **event);
  return JsonAnswer(std::move(body));
}

HttpResponse ProbeApi::Handle(const HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD") return Text(405, "use GET\n");
  if (request.target == "/live") return Text(200, "live\n");
  if (request.target == "/ready") {
    if (!ready) return Text(503, "starting or draining\n");
    if (ledger_.Stats().latched) {
      return Text(503, "the ledger refused a commit: writes are refused until a restart\n");
    }
    return Text(200, "ready\n");
  }
  if (request.target == "/metrics") {
    return {200,
            "OK",
            {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
            metrics_.Scrape(ledger_, access_log_.dropped())};
  }
  return Text(404, "the probe port has /live, /ready and /metrics\n");
}

}  // namespace recourse
