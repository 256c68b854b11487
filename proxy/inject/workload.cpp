#include "proxy/inject/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "proxy/inject/json_patch.h"
#include "proxy/inject/pod_template.h"

namespace recourse {
namespace {

struct Kind {
  std::string_view group, resource, kind, api_version, pod;
};
constexpr Kind kKinds[] = {
    {"apps", "deployments", "Deployment", "apps/v1", "/spec/template"},
    {"apps", "statefulsets", "StatefulSet", "apps/v1", "/spec/template"},
    {"apps", "daemonsets", "DaemonSet", "apps/v1", "/spec/template"},
    {"apps", "replicasets", "ReplicaSet", "apps/v1", "/spec/template"},
    {"", "replicationcontrollers", "ReplicationController", "v1", "/spec/template"},
    {"batch", "jobs", "Job", "batch/v1", "/spec/template"},
    {"batch", "cronjobs", "Job", "batch/v1", "/spec/jobTemplate/spec/template"},
};

Json ObjectOf(std::vector<Json::Member> members) {
  Json object;
  object.kind = Json::Kind::kObject;
  object.members = std::move(members);
  return object;
}

void Put(Json& object, std::string_view name, Json value) {
  object.kind = Json::Kind::kObject;
  std::erase_if(object.members, [&](const Json::Member& one) { return one.first == name; });
  object.members.emplace_back(std::string(name), std::move(value));
}

Json OwnerOf(const Kind& kind, std::string_view name) {
  Json yes;
  yes.kind = Json::Kind::kTrue;
  return JsonArray({ObjectOf({{"apiVersion", JsonText(kind.api_version)},
                              {"kind", JsonText(kind.kind)},
                              {"name", JsonText(name)},
                              {"controller", std::move(yes)}})});
}

// As the StatefulSet's controller does: a claim for each template, in place of what has its name.
void AddClaims(Json& spec, const Json& workload, std::string_view pod) {
  const Json* const templates = AtPointer(workload, "/spec/volumeClaimTemplates");
  if (!IsArray(templates)) return;
  const Json* const own = spec.Find("volumes");
  std::vector<Json> volumes = IsArray(own) ? own->items : std::vector<Json>();
  for (const Json& claim : templates->items) {
    const std::string name(TextAt(claim, "/metadata/name"));
    std::erase_if(volumes, [&](const Json& one) { return TextOf(one, "name") == name; });
    volumes.push_back(
        ObjectOf({{"name", JsonText(name)},
                  {"persistentVolumeClaim",
                   ObjectOf({{"claimName", JsonText(fmt::format("{}-{}", name, pod))}})}}));
  }
  Put(spec, "volumes", JsonArray(std::move(volumes)));
}

const Kind* FindKind(std::string_view group, std::string_view resource) {
  const auto kind = std::ranges::find_if(
      kKinds, [&](const Kind& one) { return one.group == group && one.resource == resource; });
  return kind == std::end(kKinds) ? nullptr : kind;
}

// The claim that every pod gets by the template's volume for the ledger; empty: none.
std::string_view LedgerClaimOf(const Json& pod) {
  const Json* const volumes = AtPointer(pod, "/spec/volumes");
  const Json* const ledger = IsArray(volumes) ? FindNamed(volumes->items, kLedgerVolume) : nullptr;
  return ledger == nullptr ? std::string_view()
                           : TextAt(*ledger, "/persistentVolumeClaim/claimName");
}

bool IsMoreThanOne(const Json* number) { return WholeNumber(number).value_or(1) > 1; }

std::optional<std::string> WhyTwoAtOnce(const Json& object, const Kind& kind) {
  if (kind.resource == "deployments") {
    if (IsMoreThanOne(AtPointer(object, "/spec/replicas"))) return "set replicas to 1";
    if (TextAt(object, "/spec/strategy/type") != "Recreate") {
      return "set strategy.type to Recreate, as else the next pod starts before the last one ends";
    }
  }
  const bool is_cron = kind.resource == "cronjobs";
  if (is_cron || kind.resource == "jobs") {
    const std::string_view at =
        is_cron ? "/spec/jobTemplate/spec/parallelism" : "/spec/parallelism";
    if (IsMoreThanOne(AtPointer(object, at))) return "set parallelism to 1";
  }
  const std::string_view overlap = TextAt(object, "/spec/concurrencyPolicy");
  if (is_cron && overlap != "Forbid" && overlap != "Replace") {
    return "set concurrencyPolicy to Forbid";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> WhyPodsShareClaim(const Json& object, std::string_view group,
                                             std::string_view resource) {
  const Kind* const kind = FindKind(group, resource);
  const Json* const pod = kind == nullptr ? nullptr : AtPointer(object, kind->pod);
  const std::string_view claim = pod == nullptr ? std::string_view() : LedgerClaimOf(*pod);
  if (claim.empty()) return std::nullopt;
  const auto what = WhyTwoAtOnce(object, *kind);
  if (!what) return std::nullopt;
  return fmt::format("two of its pods could have the claim {} of one ledger: {}", claim, *what);
}

std::optional<Json> PodOfWorkload(const Json& object, std::string_view group,
                                  std::string_view resource) {
  const Kind* const kind = FindKind(group, resource);
  if (kind == nullptr) return std::nullopt;
  const Json* const pod = AtPointer(object, kind->pod);
  const Json* const spec = pod == nullptr ? nullptr : pod->Find("spec");
  if (!IsObject(spec)) return std::nullopt;
  const std::string name(TextAt(object, "/metadata/name"));
  const std::string pod_name = name + "-0";
  Json metadata = IsObject(pod->Find("metadata")) ? *pod->Find("metadata") : Json();
  Put(metadata, "name", JsonText(pod_name));
  Put(metadata, "ownerReferences", OwnerOf(*kind, name));
  Json made_spec = *spec;
  AddClaims(made_spec, object, pod_name);
  return ObjectOf({{"metadata", std::move(metadata)}, {"spec", std::move(made_spec)}});
}

}  // namespace recourse
