#include "proxy/inject/pod_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "proxy/inject/exclusive_use.h"
#include "proxy/inject/json_patch.h"

namespace recourse {
namespace {

bool IsTrue(const Json& pod, std::string_view pointer) {
  const Json* const value = AtPointer(pod, pointer);
  return value != nullptr && value->kind == Json::Kind::kTrue;
}

std::vector<const Json*> ItemsAt(const Json& pod, std::string_view pointer) {
  std::vector<const Json*> items;
  const Json* const list = AtPointer(pod, pointer);
  if (list == nullptr) return items;
  for (const Json& item : list->items) items.push_back(&item);
  return items;
}

// As text; what is null is absent.
std::string Member(const Json& object, std::string_view pointer) {
  const Json* const value = AtPointer(object, pointer);
  return value == nullptr || value->kind == Json::Kind::kNull ? std::string() : PlainJson(*value);
}

// Whether a mount is of a volume that agents are not given, or not in this way.
bool IsOnlyOurs(const Json& mount, const PodTemplate& from) {
  const std::string_view name = TextOf(mount, "name");
  if (name == kLedgerVolume) return true;
  if (FindNamed(from.volumes, name) == nullptr) return false;
  const Json* const given = FindNamed(from.agent_mounts, name);
  return given == nullptr || (IsTrue(*given, "/readOnly") && !IsTrue(mount, "/readOnly"));
}

std::optional<std::string> WhyNotThisContainer(const Json& pod, const Json& container,
                                               const PodTemplate& from, std::int64_t user) {
  const std::string_view name = TextOf(container, "name");
  if (WholeNumber(AtPointer(container, "/securityContext/runAsUser")) == user) {
    return fmt::format(
        "its container {} runs as user {}, which is Recourse's alone: give it another one", name,
        user);
  }
  for (const char* const list : {"/volumeMounts", "/volumeDevices"}) {
    for (const Json* const mount : ItemsAt(container, list)) {
      if (!IsOnlyOurs(*mount, from)) continue;
      return fmt::format("its container {} mounts {}, which is Recourse's alone: remove the mount",
                         name, TextOf(*mount, "name"));
    }
  }
  if (auto why = WhySecretIsOurs(pod, container, from)) return why;
  return WhyPortIsOurs(container, from);
}

// A second way to the ledger's claim.
std::optional<std::string> WhyNotTheseVolumes(const Json& pod) {
  std::vector<const Json*> volumes = ItemsAt(pod, "/spec/volumes");
  const auto name_of = [](const Json* volume) { return TextOf(*volume, "name"); };
  const auto ledger = std::ranges::find(volumes, kLedgerVolume, name_of);
  if (ledger == volumes.end()) return std::nullopt;
  const std::string claim = Member(**ledger, "/persistentVolumeClaim/claimName");
  for (const Json* const volume : volumes) {
    if (volume == *ledger || claim.empty()) continue;
    if (Member(*volume, "/persistentVolumeClaim/claimName") != claim) continue;
    return fmt::format("its volume {} is the claim {} of the ledger: remove that volume",
                       TextOf(*volume, "name"), claim);
  }
  return std::nullopt;
}

// Where the pod runs and what its own containers may do; those of the template's names are not
// looked at.
std::optional<std::string> WhyUnsafe(const Json& pod, const PodTemplate& from) {
  if (IsTrue(pod, "/spec/hostNetwork")) {
    return "it has the node's network (hostNetwork), where every pod of the node reaches Recourse: "
           "remove hostNetwork";
  }
  if (IsTrue(pod, "/spec/shareProcessNamespace") || IsTrue(pod, "/spec/hostPID")) {
    return "its agents see Recourse's process, and so its credentials: remove "
           "shareProcessNamespace and hostPID";
  }
  const Json* const os = AtPointer(pod, "/spec/os/name");
  const Json* const node = AtPointer(pod, "/spec/nodeSelector/kubernetes.io~1os");
  if ((os != nullptr && os->text == "windows") || (node != nullptr && node->text == "windows")) {
    return "its containers are of Windows, where Recourse does not run: remove the annotation";
  }
  const auto user = WholeNumber(AtPointer(from.sidecar(), "/securityContext/runAsUser"));
  if (user && WholeNumber(AtPointer(pod, "/spec/securityContext/runAsUser")) == user) {
    return fmt::format("it runs as user {}, which is Recourse's alone: give it another one", *user);
  }
  for (const Json* const container : ContainersOf(pod)) {
    if (FindNamed(from.init_containers, TextOf(*container, "name")) != nullptr) continue;
    if (auto why = WhyNotThisContainer(pod, *container, from, user.value_or(-1))) return why;
  }
  if (auto why = WhyPortsClash(from)) return why;
  return WhyNotTheseVolumes(pod);
}

std::optional<std::string> WhyNameIsTaken(const std::vector<const Json*>& own,
                                          const std::vector<Json>& ours, std::string_view what) {
  for (const Json* const item : own) {
    const std::string_view name = TextOf(*item, "name");
    if (FindNamed(ours, name) == nullptr) continue;
    return fmt::format("it has a {} {} of its own: rename that", what, name);
  }
  return std::nullopt;
}

// Without registry, tag and digest, which mirrors and those who pin images change.
std::string_view ImageName(std::string_view image) {
  image = image.substr(0, image.find('@'));
  const auto slash = image.rfind('/');
  if (slash != std::string_view::npos) image.remove_prefix(slash + 1);
  return image.substr(0, image.find(':'));
}

bool HasMounts(const Json& container, const Json& ours) {
  const std::vector<const Json*> has = ItemsAt(container, "/volumeMounts");
  for (const Json* const mount : ItemsAt(ours, "/volumeMounts")) {
    const auto is_it = [&](const Json* other) {
      return Member(*other, "/name") == Member(*mount, "/name") &&
             Member(*other, "/mountPath") == Member(*mount, "/mountPath") &&
             Member(*other, "/subPath").empty() && Member(*other, "/subPathExpr").empty();
    };
    if (std::ranges::none_of(has, is_it)) return false;
  }
  return true;
}

// What Kubernetes and other webhooks add to a container (resources, more mounts) may differ.
bool IsOurs(const Json& container, const Json& ours) {
  for (const char* const same :
       {"/restartPolicy", "/command", "/args", "/securityContext/runAsUser"}) {
    if (Member(container, same) != Member(ours, same)) return false;
  }
  return ImageName(TextOf(container, "image")) == ImageName(TextOf(ours, "image")) &&
         HasMounts(container, ours);
}

}  // namespace

std::vector<const Json*> ContainersOf(const Json& pod) {
  std::vector<const Json*> all;
  for (const char* const list : {"/spec/initContainers", "/spec/containers"}) {
    const Json* const containers = AtPointer(pod, list);
    if (containers == nullptr) continue;
    for (const Json& container : containers->items) all.push_back(&container);
  }
  return all;
}

std::optional<std::string> WhyNotLabelled(const Json& pod, const PodTemplate& from) {
  const Json* const labels = AtPointer(pod, "/metadata/labels");
  if (labels == nullptr) return std::nullopt;
  for (const auto& [name, value] : labels->members) {
    if (!name.starts_with("recourse.dev/") || from.labels.Find(name) != nullptr) continue;
    return fmt::format(
        "the pod has the label {}, which does nothing: make it an annotation, or remove it", name);
  }
  return std::nullopt;
}

bool HasSidecar(const Json& pod) {
  const Json* const list = AtPointer(pod, "/spec/initContainers");
  const Json* const found = list == nullptr ? nullptr : FindNamed(list->items, kSidecarName);
  return found != nullptr && TextOf(*found, "restartPolicy") == "Always";
}

std::optional<std::string> WhyNotInjected(const Json& pod, const PodTemplate& from) {
  auto why = WhyNameIsTaken(ContainersOf(pod), from.init_containers, "container");
  if (!why) why = WhyNameIsTaken(ItemsAt(pod, "/spec/volumes"), from.volumes, "volume");
  return why ? why : WhyUnsafe(pod, from);
}

std::optional<std::string> WhyNotGuarded(const Json& pod, const PodTemplate& from) {
  const std::vector<Json>& ours = from.init_containers;
  if (auto why = WhyNameIsTaken(ItemsAt(pod, "/spec/containers"), ours, "container")) return why;
  for (const Json* const container : ItemsAt(pod, "/spec/initContainers")) {
    const std::string_view name = TextOf(*container, "name");
    const Json* const added = FindNamed(ours, name);
    if (added == nullptr || IsOurs(*container, *added)) continue;
    return fmt::format(
        "its container {} has another image, command, user, mount or flag than the one that would "
        "be added: remove that container, or the annotation recourse.dev/inject",
        name);
  }
  return WhyUnsafe(pod, from);
}

}  // namespace recourse
