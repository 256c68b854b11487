#include "proxy/inject/pod_check.h"

#include <fmt/format.h>

namespace recourse {
namespace {

bool IsTrue(const Json& pod, std::string_view pointer) {
  const Json* const value = AtPointer(pod, pointer);
  return value != nullptr && value->kind == Json::Kind::kTrue;
}

std::optional<std::string> WhyNotThisContainer(const Json& container, const PodTemplate& from,
                                               std::int64_t user) {
  const std::string_view name = TextOf(container, "name");
  if (FindNamed(from.init_containers, name) != nullptr) {
    return fmt::format("it has a container {} of its own: rename that", name);
  }
  if (WholeNumber(AtPointer(container, "/securityContext/runAsUser")) == user) {
    return fmt::format(
        "its container {} runs as user {}, which is Recourse's alone: give it another one", name,
        user);
  }
  const Json* const mounts = container.Find("volumeMounts");
  if (mounts != nullptr && FindNamed(mounts->items, kLedgerVolume) != nullptr) {
    return fmt::format("its container {} mounts {}, which is Recourse's alone: remove the mount",
                       name, kLedgerVolume);
  }
  return std::nullopt;
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

std::optional<std::string> WhyNotInjected(const Json& pod, const PodTemplate& from) {
  if (IsTrue(pod, "/spec/hostNetwork")) {
    return "it has the node's network (hostNetwork), where every pod of the node reaches Recourse: "
           "remove hostNetwork";
  }
  if (IsTrue(pod, "/spec/shareProcessNamespace") || IsTrue(pod, "/spec/hostPID")) {
    return "its agents see Recourse's process, and so its credentials: remove "
           "shareProcessNamespace and hostPID";
  }
  const Json* const os = AtPointer(pod, "/spec/os/name");
  if (os != nullptr && os->text == "windows") return "its containers are of Windows";
  const auto user = WholeNumber(AtPointer(from.sidecar(), "/securityContext/runAsUser"));
  if (user && WholeNumber(AtPointer(pod, "/spec/securityContext/runAsUser")) == user) {
    return fmt::format("it runs as user {}, which is Recourse's alone: give it another one", *user);
  }
  for (const Json* const container : ContainersOf(pod)) {
    if (auto why = WhyNotThisContainer(*container, from, user.value_or(-1))) return why;
  }
  const Json* const volumes = AtPointer(pod, "/spec/volumes");
  if (volumes == nullptr) return std::nullopt;
  for (const Json& volume : volumes->items) {
    const std::string_view name = TextOf(volume, "name");
    if (FindNamed(from.volumes, name) == nullptr) continue;
    return fmt::format("it has a volume {} of its own: rename that", name);
  }
  return std::nullopt;
}

}  // namespace recourse
