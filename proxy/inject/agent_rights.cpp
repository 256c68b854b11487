#include "proxy/inject/agent_rights.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace recourse {
namespace {

struct Right {
  std::string_view capability, breaks;
};
constexpr Right kRights[] = {
    {"ALL", "can do all that root can"},
    {"SYS_ADMIN", "can enter Recourse's namespaces, and read its ledger and credentials"},
    {"SYS_PTRACE", "can read the memory of Recourse where it sees its process"},
    {"SETUID", "can become Recourse's user, whose calls redirect lets pass"},
    {"NET_ADMIN", "can remove the rules of redirect"},
};
// Where a kubelet keeps the volumes of pods, and where processes are seen.
constexpr std::string_view kHostPaths[] = {"/var/lib/kubelet", "/proc"};

bool IsTrue(const Json* value) { return value != nullptr && value->kind == Json::Kind::kTrue; }

bool IsWithin(std::string_view path, std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

// Of a securityContext's list, with or without the prefix that runtimes take, too.
bool HasCapability(const Json& container, std::string_view list, std::string_view name) {
  const Json* const found =
      AtPointer(container, fmt::format("/securityContext/capabilities/{}", list));
  return found != nullptr && std::ranges::any_of(found->items, [&](const Json& item) {
           return item.text == name || item.text == fmt::format("CAP_{}", name);
         });
}

std::string_view HostPathIn(const Json& pod, const Json& container) {
  const Json* const volumes = AtPointer(pod, "/spec/volumes");
  const Json* const mounts = container.Find("volumeMounts");
  for (std::size_t i = 0; volumes != nullptr && mounts != nullptr && i < mounts->items.size();
       ++i) {
    const Json* const volume = FindNamed(volumes->items, TextOf(mounts->items[i], "name"));
    const std::string_view path =
        volume == nullptr ? std::string_view() : TextAt(*volume, "/hostPath/path");
    const auto is_it = [&](std::string_view seen) {
      return IsWithin(seen, path) || IsWithin(path, seen);
    };
    if (!path.empty() && std::ranges::any_of(kHostPaths, is_it)) return path;
  }
  return {};
}

void LookAt(const Json& pod, const Json& container, AgentRights& rights) {
  const std::string_view name = TextOf(container, "name");
  if (IsTrue(AtPointer(container, "/securityContext/privileged"))) {
    rights.unsafe.push_back(fmt::format(
        "its container {} is privileged, and sees Recourse's memory, ledger and credentials: "
        "remove that",
        name));
  }
  for (const auto& [capability, breaks] : kRights) {
    if (!HasCapability(container, "add", capability)) continue;
    rights.unsafe.push_back(fmt::format("its container {} has the capability {}, and {}: remove it",
                                        name, capability, breaks));
  }
  if (const std::string_view path = HostPathIn(pod, container); !path.empty()) {
    rights.unsafe.push_back(fmt::format(
        "its container {} mounts {} of the node, and sees Recourse's volumes or processes: remove "
        "the mount",
        name, path));
  }
}

// What of the container's securityContext holds, the pod's else.
const Json* Setting(const Json& pod, const Json& container, std::string_view name) {
  const Json* const own = AtPointer(container, fmt::format("/securityContext/{}", name));
  const bool is_set = own != nullptr && own->kind != Json::Kind::kNull;
  return is_set ? own : AtPointer(pod, fmt::format("/spec/securityContext/{}", name));
}

// Root has SETUID unless it is taken away.
bool MayBecomeAnybody(const Json& pod, const Json& container) {
  const auto user = WholeNumber(Setting(pod, container, "runAsUser"));
  if (user ? *user != 0 : IsTrue(Setting(pod, container, "runAsNonRoot"))) return false;
  return !HasCapability(container, "drop", "ALL") && !HasCapability(container, "drop", "SETUID");
}

}  // namespace

AgentRights RightsOf(const Json& pod, const std::vector<const Json*>& agents,
                     const PodTemplate& from) {
  AgentRights rights;
  if (IsTrue(AtPointer(pod, "/spec/hostIPC"))) {
    rights.unsafe.emplace_back(
        "its agents share memory with processes of the node (hostIPC), past every policy: remove "
        "hostIPC");
  }
  for (const Json* const container : agents) LookAt(pod, *container, rights);
  if (FindNamed(from.init_containers, kRedirectName) == nullptr) return rights;
  for (const Json* const container : agents) {
    if (!MayBecomeAnybody(pod, *container)) continue;
    rights.doubtful.push_back(fmt::format(
        "container {} may be root, and as Recourse's user call past redirect: set runAsNonRoot, or "
        "drop SETUID",
        TextOf(*container, "name")));
  }
  return rights;
}

}  // namespace recourse
