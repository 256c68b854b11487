#include "proxy/inject/injection.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "proxy/base/json/json_span.h"
#include "proxy/inject/agent_rights.h"
#include "proxy/inject/injected_env.h"
#include "proxy/inject/pod_check.h"
#include "proxy/inject/pod_ledger.h"
#include "proxy/inject/pod_options.h"
#include "proxy/inject/template_options.h"

namespace recourse {
namespace {

// Writes the patch of one pod, whose parts come from a template.
class Patcher {
 public:
  explicit Patcher(const Json& pod) : pod_(pod) {}

  // To the end of the list at `pointer`, which need not be there.
  void Append(const std::string& pointer, const std::vector<Json>& items) {
    if (items.empty()) return;
    if (!IsArray(AtPointer(pod_, pointer))) {
      patch_.Add(pointer, JsonArray(items));
      return;
    }
    for (const Json& item : items) patch_.Add(pointer + "/-", item);
  }

  // `at`: at most the items of that list.
  void Insert(const std::string& pointer, std::size_t at, const std::vector<Json>& items) {
    if (!IsArray(AtPointer(pod_, pointer))) {
      patch_.Add(pointer, JsonArray(items));
      return;
    }
    for (const Json& item : items) patch_.Add(fmt::format("{}/{}", pointer, at++), item);
  }

  // Members of the object at `pointer`; those that it has stay as they are, unless `replaces`.
  enum class Present : std::uint8_t { kStays, kIsReplaced };
  void Merge(const std::string& pointer, const Json& members, Present present) {
    const Json* const object = AtPointer(pod_, pointer);
    if (members.members.empty()) return;
    if (!IsObject(object)) {
      patch_.Add(pointer, members);
      return;
    }
    for (const auto& [name, value] : members.members) {
      if (present == Present::kStays && object->Find(name) != nullptr) continue;
      patch_.Add(pointer + '/' + PointerToken(name), value);
    }
  }

  void AtLeast(const std::string& pointer, std::int64_t least) {
    const auto number = WholeNumber(AtPointer(pod_, pointer));
    if (number && *number >= least) return;
    Json value;
    value.kind = Json::Kind::kNumber;
    value.text = std::to_string(least) + "e0";
    patch_.Add(pointer, value);
  }

  // Where RFC 6902 finds a member already, adding replaces it.
  void Set(const std::string& pointer, const std::string& text) {
    patch_.Add(pointer, JsonText(text));
  }

  JsonPatch Take() { return std::move(patch_); }

 private:
  const Json& pod_;
  JsonPatch patch_;
};

// What a mesh without native sidecars puts beside agents, and by which annotation its injector says
// so. Its calls are theirs, which have passed Recourse, or to the mesh's own control plane.
struct MeshProxy {
  std::string_view container, mark;
};
constexpr MeshProxy kMeshProxies[] = {{"istio-proxy", "sidecar.istio.io/status"},
                                      {"linkerd-proxy", "linkerd.io/proxy-version"}};

// Also one that a mesh is yet to fill in: of Istio's the pod sets what it wants otherwise, with the
// image `auto`. Else the name alone would lead an agent past Recourse.
bool IsMeshProxy(const Json& pod, const Json& container) {
  const auto mesh =
      std::ranges::find(kMeshProxies, TextOf(container, "name"), &MeshProxy::container);
  if (mesh == std::end(kMeshProxies)) return false;
  const std::string_view image = TextOf(container, "image");
  const Json* const notes = AtPointer(pod, "/metadata/annotations");
  return image.empty() || image == "auto" ||
         (notes != nullptr && notes->Find(mesh->mark) != nullptr);
}

// The containers that `options` names, or all but init containers and proxies of meshes.
bool IsAgent(const Json& pod, const PodOptions& options, std::string_view list,
             const Json& container) {
  if (options.containers) {
    return std::ranges::find(*options.containers, TextOf(container, "name")) !=
           options.containers->end();
  }
  return list == "/spec/containers" && !IsMeshProxy(pod, container);
}

// Where Recourse starts: first, or behind a native mesh proxy that the pod has already (`istioctl
// kube-inject`), as its webhook would place that; never behind an agent.
std::size_t PlaceAmongInitContainers(const Json& pod, const PodOptions& options) {
  constexpr std::string_view kList = "/spec/initContainers";
  const Json* const containers = AtPointer(pod, kList);
  std::size_t place = 0, passed = 0;
  for (const Json& container : containers == nullptr ? std::vector<Json>() : containers->items) {
    ++passed;
    if (IsAgent(pod, options, kList, container)) break;
    const bool is_native = TextOf(container, "restartPolicy") == "Always";
    if (is_native && IsMeshProxy(pod, container)) place = passed;
  }
  return place;
}

// A container that is an agent, and what it gets.
struct Agent {
  std::string pointer;
  const Json* container;
  InjectedEnv env;
};

std::expected<std::vector<Agent>, std::string> AgentsOf(const Json& pod, const PodOptions& options,
                                                        const PodTemplate& from) {
  std::vector<Agent> agents;
  for (const char* const list : {"/spec/initContainers", "/spec/containers"}) {
    const Json* const containers = AtPointer(pod, list);
    if (containers == nullptr) continue;
    for (std::size_t i = 0; i < containers->items.size(); ++i) {
      const Json& container = containers->items[i];
      if (!IsAgent(pod, options, list, container)) continue;
      auto env = InjectedEnvFor(container, from);
      if (!env) return std::unexpected(std::move(env.error()));
      agents.push_back({fmt::format("{}/{}", list, i), &container, std::move(*env)});
    }
  }
  return agents;
}

// Kubernetes refuses two mounts at one path, and its sentence names nobody who could help.
std::optional<std::string> WhyPathIsTaken(const std::vector<Agent>& agents,
                                          const PodTemplate& from) {
  for (const Agent& agent : agents) {
    const Json* const mounts = agent.container->Find("volumeMounts");
    for (std::size_t i = 0; mounts != nullptr && i < mounts->items.size(); ++i) {
      const std::string_view path = TextOf(mounts->items[i], "mountPath");
      const auto is_taken = [&](const Json& ours) { return TextOf(ours, "mountPath") == path; };
      if (std::ranges::none_of(from.agent_mounts, is_taken)) continue;
      return fmt::format(
          "its container {} mounts something at {}, where the CAs of Recourse are to be: remove "
          "that mount",
          TextOf(*agent.container, "name"), path);
    }
  }
  return std::nullopt;
}

void AddToAgents(Patcher& patcher, const std::vector<Agent>& agents, const PodTemplate& from,
                 std::vector<std::string>& warnings) {
  for (const Agent& agent : agents) {
    for (const auto& [index, value] : agent.env.changed) {
      patcher.Set(fmt::format("{}/env/{}/value", agent.pointer, index), value);
    }
    patcher.Append(agent.pointer + "/env", agent.env.added);
    patcher.Append(agent.pointer + "/volumeMounts", from.agent_mounts);
    if (agent.env.kept.empty()) continue;
    warnings.push_back(
        fmt::format("container {} sets {} itself: what that leads past Recourse is not guarded",
                    TextOf(*agent.container, "name"), agent.env.kept));
  }
}

// Rights of agents that break the promise: the first of them, if such pods are refused; else all
// are told.
std::optional<std::string> WhyRightsAreRefused(const Json& pod, const std::vector<Agent>& agents,
                                               const PodTemplate& from,
                                               std::vector<std::string>& warnings) {
  std::vector<const Json*> containers;
  for (const Agent& agent : agents) containers.push_back(agent.container);
  AgentRights rights = RightsOf(pod, containers, from);
  if (from.refuses_unsafe && !rights.unsafe.empty()) {
    return rights.unsafe.front() + ", or set injector.unsafePods to warn";
  }
  for (std::string& one : rights.unsafe) warnings.push_back("not guarded from it: " + one);
  for (std::string& one : rights.doubtful) warnings.push_back(std::move(one));
  return std::nullopt;
}

// The lists by commas as one, without what the first has.
std::string JoinedLists(std::string_view first, std::string_view second) {
  std::string joined(first);
  for (std::size_t at = 0; at < second.size();) {
    const auto end = std::min(second.find(',', at), second.size());
    const std::string part(second.substr(at, end - at));
    if ((',' + joined + ',').find(',' + part + ',') == std::string::npos) {
      joined.append(joined.empty() ? "" : ",").append(part);
    }
    at = end + 1;
  }
  return joined;
}

std::vector<Json> PullSecretsFor(const Json& pod, const PodTemplate& from) {
  const Json* const own = AtPointer(pod, "/spec/imagePullSecrets");
  std::vector<Json> added;
  for (const Json& secret : from.pull_secrets) {
    const bool has_it = own != nullptr && FindNamed(own->items, TextOf(secret, "name")) != nullptr;
    if (!has_it) added.push_back(secret);
  }
  return added;
}

std::optional<std::string> UnknownContainer(const Json& pod, const PodOptions& options) {
  if (!options.containers) return std::nullopt;
  const std::vector<const Json*> all = ContainersOf(pod);
  for (const std::string& name : *options.containers) {
    const auto is_it = [&](const Json* container) { return TextOf(*container, "name") == name; };
    if (std::ranges::any_of(all, is_it)) continue;
    return fmt::format("the annotation recourse.dev/containers names '{}', which the pod lacks",
                       name);
  }
  return std::nullopt;
}

// The cluster autoscaler leaves a pod alone whose ledger goes with it.
constexpr std::string_view kSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict";

void AddAnnotations(Patcher& patcher, const Json& pod, const PodTemplate& from, bool keeps_pod) {
  const Json* const own = AtPointer(pod, "/metadata/annotations");
  Json added = from.annotations;
  if (keeps_pod) added.members.emplace_back(std::string(kSafeToEvict), JsonText("false"));
  patcher.Merge("/metadata/annotations", added, Patcher::Present::kStays);
  for (const auto& [name, list] : from.annotation_lists.members) {
    const std::string_view has = own == nullptr ? std::string_view() : TextOf(*own, name);
    const std::string joined = JoinedLists(has, list.text);
    if (joined != has) patcher.Set("/metadata/annotations/" + PointerToken(name), joined);
  }
}

// What is wrong with a pod that has the sidecar: nobody has looked at it yet if it came by hand,
// and others may have changed it since, if it came from here.
std::optional<std::string> WhyNotPresent(const Json& pod, const PodOptions& options,
                                         const PodTemplate& from) {
  if (auto why = WhyNotGuarded(pod, from)) return "the pod's sidecar does not guard it: " + *why;
  const auto agents = AgentsOf(pod, options, from);
  if (!agents) return "the pod's sidecar does not guard it: " + agents.error();
  std::vector<std::string> told;
  if (auto why = WhyRightsAreRefused(pod, *agents, from, told)) {
    return "the pod's sidecar does not guard it: " + *why;
  }
  return WhyLedgerIsShared(pod, options);
}

// Fails with what would not hold in the pod.
std::expected<Injection, std::string> AddedTo(const Json& pod, const PodOptions& options,
                                              const PodTemplate& from) {
  Injection injection;
  if (auto why = WhyNotInjected(pod, from)) return std::unexpected(std::move(*why));
  if (auto why = UnknownContainer(pod, options)) return std::unexpected(std::move(*why));
  const auto agents = AgentsOf(pod, options, from);
  if (!agents) return std::unexpected(agents.error());
  if (agents->empty() && !ContainersOf(pod).empty()) {
    injection.warnings.emplace_back(
        "nobody is guarded: a mesh's proxy is no agent, unless recourse.dev/containers names it");
  }
  if (auto why = WhyPathIsTaken(*agents, from)) return std::unexpected(std::move(*why));
  auto ledger = LedgerFor(pod, options, from);
  if (!ledger) return std::unexpected(std::move(ledger.error()));
  if (ledger->warning) injection.warnings.push_back(std::move(*ledger->warning));
  if (auto why = WhyRightsAreRefused(pod, *agents, from, injection.warnings)) {
    return std::unexpected(std::move(*why));
  }
  std::vector<Json> volumes = from.volumes;
  if (ledger->volume != nullptr) volumes.push_back(*ledger->volume);
  Patcher patcher(pod);
  patcher.Merge("/metadata/labels", from.labels, Patcher::Present::kIsReplaced);
  AddAnnotations(patcher, pod, from, ledger->volume != nullptr);
  patcher.Merge("/spec/securityContext", from.security_context, Patcher::Present::kStays);
  patcher.AtLeast("/spec/terminationGracePeriodSeconds", from.grace_seconds);
  patcher.Append("/spec/volumes", volumes);
  patcher.Append("/spec/imagePullSecrets", PullSecretsFor(pod, from));
  // By their indexes of before.
  AddToAgents(patcher, *agents, from, injection.warnings);
  patcher.Insert("/spec/initContainers", PlaceAmongInitContainers(pod, options),
                 InitContainersFor(ledger->volume, from));
  injection.result = Injection::Result::kInjected;
  injection.needed = NeededBy(from);
  injection.patch = patcher.Take();
  return injection;
}

}  // namespace

std::expected<Injection, std::string> InjectionFor(const Json& pod, const PodTemplate& whole) {
  const auto options = ReadPodOptions(pod);
  if (!options) return std::unexpected(options.error());
  if (auto why = WhyNotLabelled(pod, whole)) return std::unexpected(std::move(*why));
  Injection injection;
  if (!options->is_asked) {
    if (options->has_more) {
      injection.warnings.emplace_back(
          "not injected: its annotations of recourse.dev do nothing without recourse.dev/inject: "
          "\"true\"");
    }
    return injection;
  }
  // What the kubelet shows of a static pod; nobody can add to that.
  if (AtPointer(pod, "/metadata/annotations/kubernetes.io~1config.mirror") != nullptr) {
    injection.warnings.emplace_back("not injected: a static pod is its node's file");
    return injection;
  }
  const PodTemplate from = TemplateFor(*options, whole);
  if (HasSidecar(pod)) {
    if (auto why = WhyNotPresent(pod, *options, from)) return std::unexpected(std::move(*why));
    injection.result = Injection::Result::kPresent;
    return injection;
  }
  auto added = AddedTo(pod, *options, from);
  if (!added) return std::unexpected("the pod cannot have the sidecar: " + added.error());
  return added;
}

}  // namespace recourse
