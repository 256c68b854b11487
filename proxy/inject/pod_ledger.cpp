#include "proxy/inject/pod_ledger.h"

#include <fmt/format.h>

#include <algorithm>

namespace recourse {
namespace {

constexpr std::string_view kLost =
    "the ledger goes with the pod: a call that is repeated after its end is executed again";

struct Owner {
  std::string_view kind, name;    // empty: nobody made the pod
  bool is_of_kubernetes = false;  // another group's StatefulSet or Job may do as it likes

  bool Is(std::string_view what) const { return is_of_kubernetes && kind == what; }
};

bool IsOfKubernetes(std::string_view kind, std::string_view api_version) {
  const std::string_view group = kind == "ReplicationController" ? "v1"
                                 : kind == "Job"                 ? "batch/"
                                                                 : "apps/";
  return api_version.starts_with(group);
}

Owner OwnerOf(const Json& pod) {
  const Json* const owners = AtPointer(pod, "/metadata/ownerReferences");
  if (owners == nullptr) return {};
  for (const Json& owner : owners->items) {
    const Json* const is_controller = owner.Find("controller");
    if (is_controller == nullptr || is_controller->kind != Json::Kind::kTrue) continue;
    const std::string_view kind = TextOf(owner, "kind");
    return {kind, TextOf(owner, "name"), IsOfKubernetes(kind, TextOf(owner, "apiVersion"))};
  }
  return {};
}

// Those that make many pods with one and the same list of volumes.
bool GivesAllTheSame(const Owner& owner) {
  static constexpr std::string_view kKinds[] = {"Deployment", "ReplicaSet", "ReplicationController",
                                                "DaemonSet"};
  return std::ranges::any_of(kKinds, [&](std::string_view kind) { return owner.Is(kind); });
}

bool IsSingleton(const PodOptions& options) { return options.ledger == kSingletonLedger; }

std::expected<PodLedger, std::string> OnClaim(const Json& pod, const Json& claim,
                                              bool is_singleton) {
  const std::string_view name = TextOf(claim, "claimName");
  const Owner owner = OwnerOf(pod);
  const Json* const read_only = claim.Find("readOnly");
  if (read_only != nullptr && read_only->kind == Json::Kind::kTrue) {
    return std::unexpected(
        fmt::format("the volume {} is readOnly, and a ledger is written to: remove that from it",
                    kLedgerVolume));
  }
  if (GivesAllTheSame(owner) && (!is_singleton || owner.Is("DaemonSet"))) {
    return std::unexpected(fmt::format(
        "the {} {} gives all its pods the claim {}, and two pods never share a ledger: make it a "
        "StatefulSet with the volumeClaimTemplate {}, or a Deployment of one replica and the "
        "strategy Recreate, with the annotation recourse.dev/ledger: {}",
        owner.kind, owner.name, name, kLedgerVolume, kSingletonLedger));
  }
  const Json* const metadata = pod.Find("metadata");
  if (owner.Is("StatefulSet") &&
      name != fmt::format("{}-{}", kLedgerVolume, TextOf(*metadata, "name"))) {
    return std::unexpected(fmt::format(
        "the StatefulSet {} gives all its pods the claim {}, and two pods never share a ledger: "
        "name {} in volumeClaimTemplates, not in volumes",
        owner.name, name, kLedgerVolume));
  }
  PodLedger own;
  if (!owner.kind.empty() && !owner.Is("StatefulSet") && !owner.Is("Job") && !is_singleton) {
    own.warning = fmt::format("no other pod of the {} {} may have the claim {}: it would not start",
                              owner.kind, owner.name, name);
  }
  return own;
}

std::expected<PodLedger, std::string> OnOwnVolume(const Json& pod, const Json& volume,
                                                  bool is_singleton) {
  if (const Json* const claim = volume.Find("persistentVolumeClaim")) {
    return OnClaim(pod, *claim, is_singleton);
  }
  if (volume.Find("ephemeral") != nullptr || volume.Find("emptyDir") != nullptr) {
    return PodLedger{nullptr, std::string(kLost)};
  }
  std::string kind = "of no kind";
  for (const auto& [name, value] : volume.members) {
    if (name != "name") kind = name;
  }
  return std::unexpected(
      fmt::format("the volume {} is {}; a ledger lives on a persistentVolumeClaim, ephemeral or "
                  "emptyDir, which "
                  "no other pod has",
                  kLedgerVolume, kind));
}

std::string WantsOwnClaim(const Json& pod) {
  const Owner owner = OwnerOf(pod);
  const std::string who = owner.kind.empty() ? std::string("the pod")
                                             : fmt::format("the {} {}", owner.kind, owner.name);
  const std::string_view how =
      owner.Is("StatefulSet")  ? "give it the volumeClaimTemplate recourse-ledger"
      : GivesAllTheSame(owner) ? "make it a StatefulSet with the volumeClaimTemplate "
                                 "recourse-ledger"
                               : "give it a volume recourse-ledger with a claim of its own";
  return fmt::format(
      "{} has no volume recourse-ledger for what must outlive its pods: {}; or, if calls may be "
      "executed again after a pod's end, say so by the annotation recourse.dev/ledger: emptyDir",
      who, how);
}

const Json* OwnVolume(const Json& pod) {
  const Json* const volumes = AtPointer(pod, "/spec/volumes");
  return volumes == nullptr ? nullptr : FindNamed(volumes->items, kLedgerVolume);
}

}  // namespace

std::optional<std::string> WhyLedgerIsShared(const Json& pod, const PodOptions& options) {
  const Json* const own = OwnVolume(pod);
  if (own == nullptr) return std::nullopt;  // Kubernetes refuses the mount
  auto ledger = OnOwnVolume(pod, *own, IsSingleton(options));
  return ledger ? std::nullopt : std::optional(std::move(ledger.error()));
}

std::expected<PodLedger, std::string> LedgerFor(const Json& pod, const PodOptions& options,
                                                const PodTemplate& from) {
  const Json* const own = OwnVolume(pod);
  const std::string& asked = options.ledger.value_or(from.ledger);
  if (own != nullptr) {
    if (!options.ledger || asked == kOwnLedger || IsSingleton(options)) {
      return OnOwnVolume(pod, *own, IsSingleton(options));
    }
    return std::unexpected(fmt::format(
        "the pod has a volume {} and the annotation recourse.dev/ledger: {}: remove one of them",
        kLedgerVolume, asked));
  }
  if (options.ledger_max) {
    return std::unexpected(
        "the annotation recourse.dev/ledger-max is for a volume recourse-ledger "
        "of the pod's own: remove it");
  }
  if (IsSingleton(options)) {
    return std::unexpected(fmt::format(
        "the annotation recourse.dev/ledger: {} is for a volume {} with a claim: give the pod one",
        kSingletonLedger, kLedgerVolume));
  }
  if (asked == kOwnLedger) return std::unexpected(WantsOwnClaim(pod));
  std::string accepted = fmt::format("{}, {}", kOwnLedger, kSingletonLedger);
  for (const auto& [name, volume] : from.ledgers) {
    if (name == asked) return PodLedger{&volume, std::string(kLost)};
    accepted += ", " + name;
  }
  return std::unexpected(fmt::format(
      "the annotation recourse.dev/ledger has the value '{}'; accepted: {}", asked, accepted));
}

}  // namespace recourse
