#include "proxy/admin/api/policy_view.h"

#include "proxy/admin/views/member_kinds.h"
#include "proxy/base/json/error_member.h"

namespace recourse {
namespace {

// Why a policy was not taken; empty: it was.
std::string DetailOf(const ReloadReport& report) {
  if (report.result != ReloadReport::Result::kRefused) return {};
  std::string detail = "the policy was not reloaded; the one before stays in force";
  for (const std::string& problem : report.problems) detail += "\n" + problem;
  return detail;
}

namespace policy_state_members {

using Orphan = PolicyVersions::Orphan;
constexpr JsonMember<Orphan> kOrphan[] = {
    member::Text<[](const Orphan& of) -> std::string_view { return of.open.tool; }>("tool"),
    member::Text<[](const Orphan& of) -> std::string_view { return of.open.backend; }>("backend"),
    member::Text<[](const Orphan& of) -> std::string_view { return of.open.policy_version; }>(
        "policy_version"),
    member::Named<&Orphan::reason>(
        "reason", R"({"type": "string", )"
                  R"("enum": ["tool gone", "backend gone", "backend moved", "policy lost"]})"),
    member::Number<[](const Orphan& of) { return of.open.operations; }>("operations"),
    member::Id<[](const Orphan& of) { return of.open.first; }>("first_event"),
    member::Bool<&Orphan::has_definition>("definition_kept"),
};

constexpr JsonMember<ReloadReport> kReload[] = {
    member::Named<&ReloadReport::result>(
        "result",
        R"({"type": "string", "enum": ["none", "reloaded", "unchanged", "refused", "announced"]})"),
    member::Text<&ReloadReport::version>("version"),
    member::Text<&ReloadReport::trigger>("trigger"),
    member::Time<&ReloadReport::wall_ms>("time"),
    member::Texts<&ReloadReport::problems>("problems", "FILE:LINE:COLUMN: what is wrong"),
};

constexpr JsonMember<ReloadReport> kReloadDetail[] = {
    member::TextIfAny<DetailOf>("detail", "Of a refused one"),
};

constexpr JsonMember<PolicyReloader> kState[] = {
    member::Text<[](const PolicyReloader& of) { return of.versions().Current()->version; }>(
        "version"),
    member::Text<&PolicyReloader::path>("path"),
    member::Raw<[](const PolicyReloader& of) { return ToJson(of.last()); }>("last_reload",
                                                                            "Reload"),
    member::Texts<[](const PolicyReloader& of) { return of.versions().Held(); }>(
        "older_versions_held"),
    member::Objects<[](const PolicyReloader& of) { return of.versions().Orphans(); }, kOrphan>(
        "orphaned"),
};

}  // namespace policy_state_members
}  // namespace

std::string ToJson(const ReloadReport& report) {
  return ObjectText([&](JsonObject& json) {
    WriteMembers(json, policy_state_members::kReload, report);
    WriteMembers(json, policy_state_members::kReloadDetail, report);
  });
}

std::string RefusedReloadJson(const ReloadReport& report) {
  return ObjectText([&](JsonObject& json) {
    const std::string detail = DetailOf(report);
    AddBlankProblem(json, {.status = 422, .title = "Not reloaded", .detail = detail});
    WriteMembers(json, policy_state_members::kReload, report);
  });
}

std::string PolicyStateJson(const PolicyReloader& reloader) {
  return ObjectText(
      [&](JsonObject& json) { WriteMembers(json, policy_state_members::kState, reloader); });
}

std::vector<JsonShape> PolicyStateShapes() {
  return {
      {"ReloadFacts", "", DocsOf(policy_state_members::kReload), "", /*is_base=*/true},
      {"Reload", "", DocsOf(policy_state_members::kReloadDetail), "ReloadFacts"},
      {"ReloadProblem", "", BlankProblemDocs(R"({"const": 422})"), "ReloadFacts"},
      {"Policy", "", DocsOf(policy_state_members::kState)},
  };
}

}  // namespace recourse
