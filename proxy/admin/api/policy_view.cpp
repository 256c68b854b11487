#include "proxy/admin/api/policy_view.h"

#include "filters/ledger/model/row_id.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/base/json/error_member.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

void AppendOrphan(std::string& out, const PolicyVersions::Orphan& orphan) {
  JsonObject json(out);
  json.Text("tool", orphan.open.tool);
  json.Text("backend", orphan.open.backend);
  json.Text("policy_version", orphan.open.policy_version);
  json.Text("reason", NameOf(orphan.reason));
  json.Number("operations", orphan.open.operations);
  json.Raw("first_event", RowIdJson(orphan.open.first));
  json.Bool("definition_kept", orphan.has_definition);
}

void WriteReload(JsonObject& json, const ReloadReport& report) {
  json.Text("result", NameOf(report.result));
  json.Text("version", report.version);
  json.Text("trigger", report.trigger);
  json.Text("time", Rfc3339Millis(report.wall_ms));
  json.Texts("problems", report.problems);
}

// Why a policy was not taken; empty: it was.
std::string DetailOf(const ReloadReport& report) {
  if (report.result != ReloadReport::Result::kRefused) return {};
  std::string detail = "the policy was not reloaded; the one before stays in force";
  for (const std::string& problem : report.problems) detail += "\n" + problem;
  return detail;
}

}  // namespace

std::string ToJson(const ReloadReport& report) {
  return ObjectText([&](JsonObject& json) {
    WriteReload(json, report);
    json.TextIfAny("detail", DetailOf(report));
  });
}

std::string RefusedReloadJson(const ReloadReport& report) {
  return ObjectText([&](JsonObject& json) {
    AddBlankProblem(json, 422, "Not reloaded", DetailOf(report));
    WriteReload(json, report);
  });
}

std::string PolicyStateJson(const PolicyReloader& reloader) {
  return ObjectText([&](JsonObject& json) {
    json.Text("version", reloader.versions().Current()->version);
    json.Text("path", reloader.path());
    json.Raw("last_reload", ToJson(reloader.last()));
    json.Texts("older_versions_held", reloader.versions().Held());
    json.Each("orphaned", reloader.versions().Orphans(), AppendOrphan);
  });
}

}  // namespace recourse
