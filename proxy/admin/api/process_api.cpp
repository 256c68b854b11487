#include "proxy/admin/api/process_api.h"

#include <chrono>
#include <optional>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/shared_view.h"
#include "filters/mcp/missing_tools.h"
#include "proxy/admin/access/problem.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/log/log.h"
#include "proxy/config/build_commit.h"

namespace recourse {
namespace {

HttpResponse LevelAnswer() {
  std::string body;
  JsonObject(body).Text("level", NameOf(LeastLogLevel()));
  return JsonAnswer(std::move(body));
}

// Nothing is being worked on. What waits for a human is not waited for, nor an unknown outcome that
// nobody settles. `work` was read before `stats`: what is settled may break a flow.
bool IsSettled(const ProcessApi::Work& work, const LedgerStats& stats, Mode mode) {
  if (work.connections > 0 || work.writes > 0 || work.approved > 0) return false;
  // In observe mode nothing of the ledger is ever settled or undone.
  return mode == Mode::kObserve || ((work.settling == 0 || stats.uncertain == 0) &&
                                    stats.running == 0 && stats.flows_breaking == 0);
}

std::string_view NameOf(Mode mode) { return mode == Mode::kObserve ? "observe" : "enforce"; }

// Of a ledger that is shared, if it can be asked.
void AddStreams(Ledger& ledger, const PolicyVersions& versions, JsonObject& json) {
  auto* const shared = dynamic_cast<SharedLedgerView*>(&ledger);
  const auto streams = shared != nullptr ? shared->Streams() : Result<std::vector<LedgerStream>>();
  if (shared == nullptr || !streams) return;
  json.Objects("streams", *streams, [&](JsonObject& one, const LedgerStream& stream) {
    one.Number("stream", stream.stream);
    one.Text("pod", stream.pod);
    one.Text("state", stream.state);
    one.TextIfAny("policy", stream.policy);
    const auto policy = versions.Of(stream.policy);
    if (policy->version == stream.policy) one.Text("mode", NameOf(policy->mode));
    one.Number("rows", stream.rows);
    one.Number("running", stream.running);
    one.Number("silent_s", stream.silent_s);
  });
}

// Old rows that are still there, likewise.
void AddKept(Ledger& ledger, const LedgerRule& rule, JsonObject& json) {
  auto* const shared = dynamic_cast<SharedLedgerView*>(&ledger);
  const auto kept = shared != nullptr ? shared->Kept(rule) : Result<KeptRows>();
  if (shared == nullptr || !kept) return;
  JsonObject retention(json.Value("retention"));
  retention.Bool("nobody_removes", kept->nobody_removes);
  retention.Objects("behind", kept->behind, [](JsonObject& one, const KeptRows::Behind& behind) {
    one.Raw("row", RowIdJson(behind.row));
    if (behind.operation != 0) one.Raw("operation", RowIdJson(behind.operation));
    one.Number("rows", behind.rows);
    one.Number("age_s", behind.age_s);
  });
}

}  // namespace

HttpResponse ProcessApi::Handle(const AccessControl::Visit& visit, const HttpRequest& request) {
  const std::string_view at = visit.endpoint->path;
  if (at == admin_paths::kDrain) return Drain(visit.who);
  if (at == admin_paths::kStatus) return Status();
  return request.method == "PUT" ? ChangeLevel(request.body, visit.who) : LevelAnswer();
}

HttpResponse ProcessApi::ChangeLevel(const std::string& body, const Operator& who) {
  const auto json = ParseJson(body);
  const bool is_level = json && json->members.size() == 1 && json->members.front().first == "level";
  const auto level = is_level ? LogLevelFromName(json->members.front().second.text) : std::nullopt;
  if (!level) {
    return Problem(
        400, "Bad body",
        "the body must be a JSON object such as {\"level\": \"debug\"}; accepted: debug, "
        "info, warn, error");
  }
  parts_.note(who, "log-level." + std::string(NameOf(*level)));
  SetLogLevel(*level);
  return LevelAnswer();
}

HttpResponse ProcessApi::Drain(const Operator& who) {
  const Work work = parts_.work();
  if (!work.is_ready && !work.is_draining) {
    return Problem(503, "Not now", "the process is still starting; ask again in a moment");
  }
  if (!work.is_draining) parts_.note(who, "drain");
  parts_.drain();
  return Status();
}

HttpResponse ProcessApi::Status() const {
  const Work work = parts_.work();
  const LedgerStats stats = parts_.ledger.Stats();
  const auto policy = parts_.reloader.versions().Current();
  const auto up = parts_.clock.Now() - began_;
  return JsonAnswer(ObjectText([&](JsonObject& json) {
    json.Text("version", RECOURSE_VERSION);
    json.Text("commit", BuildCommit());
    json.Text("state", work.is_draining ? "draining" : work.is_ready ? "ready" : "starting");
    json.Bool("settled", IsSettled(work, stats, policy->mode));
    json.Text("mode", NameOf(policy->mode));
    json.Text("started", Rfc3339Millis(ToUnixMillis(started_)));
    json.Number("uptime_s", std::chrono::duration_cast<std::chrono::seconds>(up).count());
    json.Text("log_level", NameOf(LeastLogLevel()));
    {
      JsonObject of_policy(json.Value("policy"));
      of_policy.Text("version", policy->version);
      of_policy.Text("path", parts_.reloader.path());
      const ReloadReport last = parts_.reloader.last();
      of_policy.Text("last_reload", last.trigger == "start" ? "none" : NameOf(last.result));
    }
    json.Number("agents_port", work.agents_port);
    json.Number("connections", work.connections);
    json.Number("writes", work.writes);
    {
      JsonObject flows(json.Value("flows"));
      flows.Number("open", stats.flows_open);
      flows.Number("breaking", stats.flows_breaking);
      flows.Number("parked", stats.flows_parked);
      flows.Number("stopped", stats.flows_stopped);
    }
    json.Raw("flow_counts", ToJson(work.flow_counts));
    {
      JsonObject unknown(json.Value("unknown_callers"));
      unknown.Number("reads", work.unknown_callers.reads);
      unknown.Number("writes", work.unknown_callers.writes);
    }
    json.Number("approvals_pending", stats.approvals_pending);
    const auto write_name = [](std::string& out, const McpToolName& one) {
      AppendJsonString(out, one.backend + ' ' + one.name);
    };
    json.Each("missing_tools", MissingTools(*policy, *work.mcp_tools), write_name);
    json.Each("redeclared_tools", RedeclaredTools(*policy, *work.mcp_tools), write_name);
    json.Raw("ledger", ToJson(stats));
    AddStreams(parts_.ledger, parts_.reloader.versions(), json);
    AddKept(parts_.ledger, policy->ledger, json);
  }));
}

}  // namespace recourse
