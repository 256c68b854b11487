#include "proxy/server/policy_json.h"

#include "proxy/base/json.h"
#include "proxy/server/event_json.h"

namespace recourse {
namespace {

void Text(std::string& out, std::string_view name, std::string_view value) {
  if (out.back() != '{') out.push_back(',');
  out.append("\"").append(name).append("\":");
  AppendJsonString(out, value);
}

void Texts(std::string& out, std::string_view name, const std::vector<std::string>& values) {
  out.append(",\"").append(name).append("\":[");
  for (const std::string& value : values) {
    if (out.back() != '[') out.push_back(',');
    AppendJsonString(out, value);
  }
  out.push_back(']');
}

void AppendOrphan(std::string& out, const PolicyVersions::Orphan& orphan) {
  out.push_back('{');
  Text(out, "tool", orphan.open.tool);
  Text(out, "backend", orphan.open.backend);
  Text(out, "policy_version", orphan.open.policy_version);
  Text(out, "reason", NameOf(orphan.reason));
  out.append(",\"operations\":").append(std::to_string(orphan.open.operations));
  out.append(",\"first_event\":").append(std::to_string(orphan.open.first));
  out.append(orphan.has_definition ? ",\"definition_kept\":true}" : ",\"definition_kept\":false}");
}

void AppendReload(std::string& out, const ReloadReport& report) {
  Text(out, "result", NameOf(report.result));
  Text(out, "version", report.version);
  Text(out, "trigger", report.trigger);
  Text(out, "time", Rfc3339Millis(report.wall_ms));
  Texts(out, "problems", report.problems);
  if (report.result == ReloadReport::Result::kRefused) {
    std::string detail = "the policy was not reloaded; the one before stays in force";
    for (const std::string& problem : report.problems) detail += "\n" + problem;
    Text(out, "detail", detail);
  }
}

}  // namespace

std::string ToJson(const ReloadReport& report) {
  std::string out = "{";
  AppendReload(out, report);
  out.push_back('}');
  return out;
}

std::string RefusedReloadJson(const ReloadReport& report) {
  std::string out = "{";
  Text(out, "type", "about:blank");
  Text(out, "title", "Not reloaded");
  out.append(",\"status\":422");
  AppendReload(out, report);
  out.push_back('}');
  return out;
}

std::string PolicyStateJson(const PolicyReloader& reloader) {
  std::string out = "{";
  Text(out, "version", reloader.versions().Current()->version);
  Text(out, "path", reloader.path());
  out.append(",\"last_reload\":").append(ToJson(reloader.last()));
  Texts(out, "older_versions_held", reloader.versions().Held());
  out.append(",\"orphaned\":[");
  for (const PolicyVersions::Orphan& orphan : reloader.versions().Orphans()) {
    if (out.back() != '[') out.push_back(',');
    AppendOrphan(out, orphan);
  }
  out.append("]}");
  return out;
}

}  // namespace recourse
