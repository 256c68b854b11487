#include "proxy/server/admin_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "proxy/base/json.h"
#include "proxy/net/http_client.h"
#include "proxy/server/config.h"
#include "proxy/server/files.h"

namespace recourse {
namespace {

constexpr int kTimeoutSeconds = 600;  // a full verify of a large ledger takes minutes
constexpr std::uint64_t kPageMax = 1'000;

std::string Field(const Json& object, std::string_view name) {
  const Json* value = object.Find(name);
  return value == nullptr ? std::string() : ScalarText(*value);
}

FileResult<std::string> Call(const AdminClient& client, const std::string& method,
                             const std::string& target) {
  HttpRequest request{method, target, {}, {}};
  if (!client.token_file.empty()) {
    auto token = ReadSecretFile(client.token_file);
    if (!token) return std::unexpected(token.error());
    request.headers.emplace_back("Authorization", "Bearer " + *token);
  }
  const auto colon = client.address.rfind(':');
  if (colon == std::string::npos) return std::unexpected("--admin must be HOST:PORT");
  auto response = Fetch(client.address.substr(0, colon), client.address.substr(colon + 1), request,
                        kTimeoutSeconds);
  if (!response) return std::unexpected(response.error() + "; is recourse running there?");
  if (response->status == 200) return std::move(response->body);
  const auto problem = ParseJson(response->body);
  std::string detail = problem ? Field(*problem, "detail") : response->body;
  if (response->status == 401 && client.token_file.empty()) detail += " (--admin-token-file)";
  return std::unexpected(fmt::format("{} {}: {}", method, target, detail));
}

Result<Json> ParsePage(const std::string& text) {
  auto page = ParseJson(text);
  if (!page || page->Find("events") == nullptr) {
    return std::unexpected(Error(ErrorCode::kInternal, "the admin API's answer is not understood"));
  }
  return page;
}

int Fail(std::ostream& err, std::string_view what) {
  err << "recourse: " << what << "\n";
  return kExitRuntime;
}

void PrintRow(std::ostream& out, const Json& event) {
  out << fmt::format("{:>8}  {:<24}  {:<11}  {:<13}  {:>3}  {:<22}  {:<20}  {}\n",
                     Field(event, "event_id"), Field(event, "time"), Field(event, "status"),
                     Field(event, "phase"), Field(event, "attempt"), Field(event, "tool"),
                     Field(event, "external_ref"), Field(event, "trace_id"));
}

void PrintHeader(std::ostream& out) {
  out << fmt::format("{:>8}  {:<24}  {:<11}  {:<13}  {:>3}  {:<22}  {:<20}  {}\n", "EVENT", "TIME",
                     "STATUS", "PHASE", "TRY", "TOOL", "EXTERNAL REF", "TRACE");
}

}  // namespace

int ListEvents(const AdminClient& client, const EventQuery& query, std::ostream& out,
               std::ostream& err) {
  std::uint64_t left = query.limit;
  std::string after = std::to_string(query.after);
  std::string json = "[";
  bool has_header = client.json;
  while (left > 0 && !after.empty()) {
    std::string target =
        "/events?after=" + after + "&limit=" + std::to_string(std::min(left, kPageMax));
    if (!query.trace.empty()) target += "&trace=" + PercentEncode(query.trace);
    if (!query.tool.empty()) target += "&tool=" + PercentEncode(query.tool);
    if (!query.status.empty()) target += "&status=" + PercentEncode(query.status);
    if (!query.phase.empty()) target += "&phase=" + PercentEncode(query.phase);
    const auto text = Call(client, "GET", target);
    if (!text) return Fail(err, text.error());
    const auto page = ParsePage(*text);
    if (!page) return Fail(err, page.error().detail());
    if (!std::exchange(has_header, true)) PrintHeader(out);
    const Json& events = *page->Find("events");
    left -= std::min<std::uint64_t>(left, events.items.size());
    after = Field(*page, "next");
    if (!client.json) {
      for (const Json& event : events.items) PrintRow(out, event);
      continue;
    }
    // The events' own text, as the server wrote it.
    const auto first = text->find('[') + 1;
    const auto last = text->rfind("],\"next\":");
    if (json.size() > 1 && last > first) json += ",";
    json.append(*text, first, last - first);
  }
  if (client.json) out << json << "]\n";
  return kExitOk;
}

int ShowEvent(const AdminClient& client, std::uint64_t id, std::ostream& out, std::ostream& err) {
  const auto text = Call(client, "GET", "/events/" + std::to_string(id));
  if (!text) return Fail(err, text.error());
  if (client.json) {
    out << *text << "\n";
    return kExitOk;
  }
  const auto event = ParseJson(*text);
  if (!event) return Fail(err, "the admin API's answer is not understood");
  for (const auto& [name, value] : event->members) {
    out << fmt::format("{:<16} {}\n", name, ScalarText(value));
  }
  const auto operation = Call(client, "GET", "/events?operation=" + Field(*event, "operation"));
  if (!operation) return Fail(err, operation.error());
  const auto page = ParsePage(*operation);
  if (!page) return Fail(err, page.error().detail());
  out << "\nAll events of this operation:\n";
  PrintHeader(out);
  for (const Json& row : page->Find("events")->items) PrintRow(out, row);
  return kExitOk;
}

int VerifyLedger(const AdminClient& client, std::ostream& out, std::ostream& err) {
  const auto text = Call(client, "POST", "/ledger/verify");
  if (!text) return Fail(err, text.error());
  const auto report = ParseJson(*text);
  if (!report) return Fail(err, "the admin API's answer is not understood");
  const bool ok = Field(*report, "ok") == "true";
  if (client.json) {
    out << *text << "\n";
  } else if (ok) {
    out << "ok: " << Field(*report, "rows") << " rows, chain head " << Field(*report, "head")
        << "\n";
  } else {
    out << "BROKEN: " << Field(*report, "problem") << "\n";
  }
  return ok ? kExitOk : kExitLedger;
}

}  // namespace recourse
