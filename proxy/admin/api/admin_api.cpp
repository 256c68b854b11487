#include "proxy/admin/api/admin_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "policy/language/config_reader.h"
#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/access/problem.h"
#include "proxy/admin/api/openapi.h"
#include "proxy/admin/api/policy_api.h"
#include "proxy/admin/api/policy_view.h"
#include "proxy/admin/api/process_json.h"
#include "proxy/admin/api/query_params.h"
#include "proxy/admin/ui/ui_files.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/admin/views/row_view.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/http/own_port.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/report/build_report.h"
#include "proxy/report/report_text.h"
#include "proxy/telemetry/open_metrics.h"

namespace recourse {
namespace {

constexpr const char* kOfProbes =
    "this is the port of probes and metrics, and agents call the one of --listen; it has GET "
    "/live, /ready and /metrics\n";

HttpResponse Text(int status, std::string body) {
  return {status, "", {{"Content-Type", "text/plain; charset=utf-8"}}, std::move(body)};
}

// "24h": so long before now; "1790000000000": ms since 1970.
bool ParseMoment(const std::string& text, std::int64_t now_ms, std::int64_t& out) {
  if (const auto ago = ParseDuration(text)) {
    out = now_ms - ago->count();
    return true;
  }
  std::uint64_t number = 0;
  if (!ParseNumber(text, number) || number > std::numeric_limits<std::int64_t>::max()) return false;
  out = static_cast<std::int64_t>(number);
  return true;
}

}  // namespace

ServedAnswer AdminApi::Handle(const HttpRequest& request, const HttpPeer& peer) {
  auto visit = parts_.door.Admit(request, peer);
  ServedAnswer answer = visit ? Do(*visit, request, peer) : ServedAnswer(std::move(visit.error()));
  if (visit) AccessControl::Record(*visit, peer, answer.head.status);
  AddBrowserRules(answer.head);
  return answer;
}

// What reaches this is in the table of endpoints.
ServedAnswer AdminApi::Do(const AccessControl::Visit& visit, const HttpRequest& request,
                          const HttpPeer& peer) {
  const std::string_view at = visit.endpoint->path;
  for (const auto& [name, value] : ParsePairs(visit.query)) {
    std::string why = visit.endpoint->UnknownParameter(name);
    if (!why.empty()) return Problem(400, "Unknown parameter", std::move(why));
  }
  if (at == kPortPath) return PortAnswer(kAdminPort);
  if (at == admin_paths::kOpenApi) return ServeFile(request, {at, OpenApiDocument()});
  if (visit.endpoint->need == Endpoint::Need::kNobody) return ServeUiFile(request, visit.path);
  if (at == admin_paths::kSession) return parts_.door.Session(visit, request, peer);
  if (at.starts_with(admin_paths::kFlows)) return parts_.flows().Handle(visit, request);
  if (at == admin_paths::kSettle) return parts_.operations().Handle(visit, request);
  if (at.starts_with(admin_paths::kApprovals)) return parts_.approvals().Handle(visit, request);
  if (ProcessApi::Has(at)) return process_.Handle(visit, request);
  if (at == admin_paths::kPolicyExplain) {
    return PolicyExplain(*parts_.reloader.versions().Current(), request, visit.query);
  }
  if (request.method == "POST") return Post(visit, request);
  if (at == admin_paths::kEvents) return events_.List(visit.query);
  if (at == admin_paths::kOperations) return activity_.Operations(visit.query);
  if (at == admin_paths::kStream) return activity_.Stream(request, visit.query);
  if (at == admin_paths::kPolicyTools) return PolicyTools(*parts_.reloader.versions().Current());
  if (at == admin_paths::kLedger) return JsonAnswer(ToJson(parts_.ledger.Stats()));
  if (at == admin_paths::kLedgerRows) return ListRows(visit.query);
  if (at == admin_paths::kReport) return ShowReport(visit.query);
  if (at == admin_paths::kPolicy) return JsonAnswer(PolicyStateJson(parts_.reloader));
  if (at == admin_paths::kVersion) {
    return JsonAnswer(VersionJson(*parts_.reloader.versions().Current()));
  }
  return ShowEvent(admin_paths::PlaceIn(at, visit.path));
}

ServedAnswer AdminApi::Post(const AccessControl::Visit& visit, const HttpRequest& request) {
  const std::string_view at = visit.endpoint->path;
  if (at == admin_paths::kLedgerVerify) {
    const VerifyReport report = parts_.ledger.Verify();
    return report.is_away ? NoLedger(report.problem) : JsonAnswer(ToJson(report));
  }
  if (at == admin_paths::kLedgerBackup) return Backup(visit.who);
  if (at == admin_paths::kLedgerAccept) return Accept(visit.who, request.body);
  if (at != admin_paths::kPolicyReload)
    return Problem(404, "Not found", "nobody answers this path");
  NoteOrder(visit.who, "policy.reload");
  const ReloadReport report = parts_.reloader.Reload("api");
  if (report.result != ReloadReport::Result::kRefused) return JsonAnswer(ToJson(report));
  HttpResponse response = Problem(422, "Not reloaded", "");
  response.body = RefusedReloadJson(report);
  return response;
}

Result<void> AdminApi::RecordOrder(const Operator& who, std::string what, std::string reason) {
  if (auditor_ == nullptr) return {};
  const auto policy = parts_.reloader.versions().Current();
  return auditor_->RecordOrder({.what = std::move(what),
                                .who = who.name,
                                .reason = std::move(reason),
                                .policy_version = policy->version,
                                .policy = policy->digest});
}

// A ledger in trouble is when these are needed most, so they are done without it as well.
void AdminApi::NoteOrder(const Operator& who, std::string what) {
  const auto recorded = RecordOrder(who, what, {});
  if (recorded) return;
  LogForAudit(LogLevel::kWarn, "an operator's order is not in the hash chain",
              {{"operator", who.name}, {"what", what}, {"reason", recorded.error().detail()}});
}

// Who accepted it, and why, is durable before it is so.
HttpResponse AdminApi::Accept(const Operator& who, const std::string& body) {
  const auto json = ParseJson(body);
  const Json* const reason = json ? json->Find("reason") : nullptr;
  const bool is_good = reason != nullptr && json->members.size() == 1 &&
                       reason->kind == Json::Kind::kString &&
                       reason->text.find_first_not_of(" \t\r\n") != std::string::npos;
  if (!is_good) {
    return Problem(400, "Bad body", "the body must say what is known of it: {\"reason\": \"...\"}");
  }
  if (reason->text.size() > limits::kFlowReasonBytesMax) {
    return Problem(400, "Bad body",
                   fmt::format("the reason has more than {} bytes", limits::kFlowReasonBytesMax));
  }
  if (parts_.ledger.Stats().restored) {
    const auto recorded = RecordOrder(who, std::string(kAcceptOrder), reason->text);
    if (!recorded) return Problem(503, "Not accepted", recorded.error().detail());
  }
  if (auto accepted = parts_.ledger.AcceptRestoredBackup(); !accepted) {
    return Problem(503, "Not accepted", accepted.error());
  }
  return JsonAnswer(ToJson(parts_.ledger.Stats()));
}

HttpResponse AdminApi::ListRows(std::string_view query) {
  std::uint64_t after = 0, up_to = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t limit = limits::kAdminPageMax;
  for (const auto& [name, value] : ParsePairs(query)) {
    std::uint64_t* const number = name == "after" ? &after : name == "up_to" ? &up_to : &limit;
    const bool is_read = number == &limit ? ParseNumber(value, limit) : ParsePlace(value, *number);
    if (!is_read || limit == 0 || limit > limits::kAdminPageMax) {
      return Problem(400, "Bad parameter",
                     "'" + value + "' is no value for " + name + "; accepted: a number");
    }
  }
  if (auditor_ == nullptr) {
    return NoLedger(parts_.ledger.Stats().not_opened);
  }
  const auto rows = auditor_->Rows(after, up_to, static_cast<std::size_t>(limit));
  if (!rows) return NoLedger(rows.error().detail());
  std::string body;
  for (const LoggedRow& row : *rows) AppendRowLine(body, row);
  return {200, "OK", {{"Content-Type", "application/x-ndjson"}}, std::move(body)};
}

ServedAnswer AdminApi::Backup(const Operator& who) {
  // A LedgerCopy as the server's body.
  class Source final : public BodySource {
   public:
    explicit Source(std::unique_ptr<LedgerCopy> copy) : copy_(std::move(copy)) {}
    int fd() const override { return copy_->fd(); }
    bool Finish() override { return copy_->Finish(); }

   private:
    const std::unique_ptr<LedgerCopy> copy_;
  };
  NoteOrder(who, "ledger.backup");
  auto copy = parts_.ledger.StartCopy();
  if (!copy) return Problem(409, "No backup", copy.error());
  return {HttpResponse{200, "OK", {{"Content-Type", "application/octet-stream"}}, {}},
          std::make_unique<Source>(std::move(*copy))};
}

HttpResponse AdminApi::ShowEvent(std::string_view id) {
  std::uint64_t number = 0;
  if (!ParseId(id, number)) {
    return Problem(400, "Bad event id", fmt::format("an event has {}", kIdForm));
  }
  auto event = parts_.ledger.Find(number);
  if (!event) return NoLedger(event.error().detail());
  std::string body;
  if (*event) {
    AppendEvent(body, **event, &pods_);
    return JsonAnswer(std::move(body));
  }
  const auto row = parts_.ledger.List(
      {.after = std::max<std::uint64_t>(number, 1) - 1, .up_to = number, .with_flows = true});
  if (!row) return NoLedger(row.error().detail());
  // Other streams may have rows between.
  const auto moved = std::ranges::find(row->flows, number, &FlowMoved::id);
  if (moved == row->flows.end()) return Problem(404, "No such event", "no event has this id");
  AppendFlowMoved(body, *moved, &pods_);
  return JsonAnswer(std::move(body));
}

HttpResponse AdminApi::ShowReport(std::string_view query) {
  const std::int64_t now_ms = ToUnixMillis(parts_.clock.WallNow());
  ReportPeriod period{.since_ms = 0, .until_ms = now_ms};
  for (const auto& [name, value] : ParsePairs(query)) {
    if (!ParseMoment(value, now_ms, name == "since" ? period.since_ms : period.until_ms)) {
      return Problem(400, "Bad parameter",
                     "'" + value + "' is no value for " + name +
                         "; accepted: a duration before now such as 24h, or ms since 1970");
    }
  }
  if (period.since_ms > period.until_ms) {
    return Problem(400, "Bad parameter", "since is later than until, so there is nothing between");
  }
  const auto policy = parts_.reloader.versions().Current();
  const auto report = BuildReport(parts_.ledger, *policy, period);
  if (!report) return NoLedger(report.error().detail());
  Counts counts = parts_.counts();
  return JsonAnswer(
      ReportJson(*report, {.mode = policy->mode == Mode::kObserve ? "observe" : "enforce",
                           .since = Rfc3339Millis(period.since_ms),
                           .until = Rfc3339Millis(period.until_ms),
                           .started = Rfc3339Millis(ToUnixMillis(started_)),
                           .not_recorded = counts.not_recorded,
                           .replays = counts.replays,
                           .unlisted_other = counts.unlisted_other,
                           .unlisted_reads = std::move(counts.unlisted_reads),
                           .flow_counts = counts.flow_counts,
                           .refused = std::move(counts.refused),
                           .refused_other = counts.refused_other,
                           .differences = std::move(counts.differences),
                           .differences_other = counts.differences_other}));
}

HttpResponse ProbeApi::Handle(const HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD") return Text(405, kOfProbes);
  if (request.target == kPortPath) return PortAnswer(kProbesPort);
  if (request.target == "/live") return Text(200, "live\n");
  if (request.target == "/ready") {
    if (!ready) return Text(503, "starting or draining\n");
    const LedgerStats stats = ledger_.OwnStats();
    if (stats.latched) {
      if (!stats.not_opened.empty()) {
        return Text(200, "ready, but nothing is recorded: " + stats.not_opened + "\n");
      }
      if (observing_()) {
        return Text(200, "ready, but nothing is recorded: the ledger refused a commit\n");
      }
      return Text(503, "the ledger refused a commit: writes are refused until a restart\n");
    }
    return Text(200, "ready\n");
  }
  if (request.target == "/metrics") {
    const std::string* const accept = FindHeader(request.headers, "Accept");
    const bool is_open = accept != nullptr && WantsOpenMetrics(*accept);
    const std::string_view type = is_open ? kOpenMetricsType : kPrometheusTextType;
    const auto format = is_open ? Metrics::Format::kOpenMetrics : Metrics::Format::kPrometheusText;
    return {200,
            "OK",
            {{"Content-Type", std::string(type)}, {"Vary", "Accept"}},
            metrics_.Scrape(ledger_, facts_(), format)};
  }
  return Text(404, kOfProbes);
}

}  // namespace recourse
