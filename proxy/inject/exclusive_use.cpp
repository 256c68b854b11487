#include "proxy/inject/exclusive_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "proxy/inject/template_options.h"

namespace recourse {
namespace {

void AppendText(std::vector<std::string_view>& to, const Json& root, std::string_view pointer) {
  const std::string_view text = TextAt(root, pointer);
  if (!text.empty()) to.push_back(text);
}

// Names of the Secrets of which a volume has something.
std::vector<std::string_view> SecretsIn(const Json& volume) {
  std::vector<std::string_view> names;
  AppendText(names, volume, "/secret/secretName");
  const Json* const sources = AtPointer(volume, "/projected/sources");
  if (sources == nullptr) return names;
  for (const Json& source : sources->items) AppendText(names, source, "/secret/name");
  return names;
}

bool IsOurs(std::string_view secret, const PodTemplate& from) {
  return std::ranges::any_of(from.volumes, [&](const Json& volume) {
    const auto names = SecretsIn(volume);
    return std::ranges::find(names, secret) != names.end();
  });
}

struct SecretUse {
  std::string_view secret;
  std::string how;
};

std::vector<SecretUse> UsesOf(const Json& pod, const Json& container) {
  std::vector<SecretUse> uses;
  const Json* const volumes = AtPointer(pod, "/spec/volumes");
  const Json* const mounts = container.Find("volumeMounts");
  for (std::size_t i = 0; volumes != nullptr && mounts != nullptr && i < mounts->items.size();
       ++i) {
    const std::string_view name = TextOf(mounts->items[i], "name");
    const Json* const volume = FindNamed(volumes->items, name);
    if (volume == nullptr) continue;
    for (const std::string_view secret : SecretsIn(*volume)) {
      uses.push_back({secret, fmt::format("by its volume {}", name)});
    }
  }
  if (const Json* const env = container.Find("env")) {
    for (const Json& variable : env->items) {
      uses.push_back({TextAt(variable, "/valueFrom/secretKeyRef/name"),
                      fmt::format("by its variable {}", TextOf(variable, "name"))});
    }
  }
  if (const Json* const env = container.Find("envFrom")) {
    for (const Json& source : env->items) {
      uses.push_back({TextAt(source, "/secretRef/name"), "by envFrom"});
    }
  }
  return uses;
}

}  // namespace

std::optional<std::string> WhySecretIsOurs(const Json& pod, const Json& container,
                                           const PodTemplate& from) {
  for (const auto& [secret, how] : UsesOf(pod, container)) {
    if (secret.empty() || !IsOurs(secret, from)) continue;
    return fmt::format(
        "its container {} has the Secret {} {}, and that is Recourse's alone: remove it, or give "
        "the container a Secret of its own",
        TextOf(container, "name"), secret, how);
  }
  return std::nullopt;
}

std::optional<std::string> WhyPortIsOurs(const Json& container, const PodTemplate& from) {
  const std::vector<std::int64_t> ours = PortsOf(from);
  const Json* const ports = container.Find("ports");
  for (std::size_t i = 0; ports != nullptr && i < ports->items.size(); ++i) {
    const auto port = WholeNumber(ports->items[i].Find("containerPort"));
    const std::string_view protocol = TextOf(ports->items[i], "protocol");
    const bool is_tcp = protocol.empty() || protocol == "TCP";
    if (!port || !is_tcp || std::ranges::find(ours, *port) == ours.end()) continue;
    return fmt::format(
        "its container {} has the port {}, on which Recourse listens: give it another one, or "
        "Recourse, by the annotation recourse.dev/ports",
        TextOf(container, "name"), *port);
  }
  return std::nullopt;
}

std::optional<std::string> WhyPortsClash(const PodTemplate& from) {
  std::vector<std::int64_t> ports = PortsOf(from);
  std::ranges::sort(ports);
  const auto twice = std::ranges::adjacent_find(ports);
  if (twice == ports.end()) return std::nullopt;
  return fmt::format("two of Recourse's ports would be {}: correct recourse.dev/ports", *twice);
}

}  // namespace recourse
