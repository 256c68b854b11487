#include "proxy/inject/injected_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

enum class EnvFate { kStays, kIsAppendedTo, kIsRefused };

bool HasAll(std::string_view hosts) {
  for (std::size_t at = 0; at <= hosts.size();) {
    const auto end = std::min(hosts.find_first_of(", ", at), hosts.size());
    if (hosts.substr(at, end - at) == "*") return true;
    at = end + 1;
  }
  return false;
}

// Of a variable that the container sets to something else than we would.
EnvFate FateOf(const Json& own) {
  const std::string_view name = TextOf(own, "name");
  const Json* const from = own.Find("valueFrom");
  const bool is_seen = from == nullptr || from->kind == Json::Kind::kNull;
  if (EqualsIgnoreCase(name, "HTTP_PROXY") || EqualsIgnoreCase(name, "HTTPS_PROXY")) {
    return EnvFate::kIsRefused;
  }
  if (EqualsIgnoreCase(name, "NO_PROXY") && HasAll(TextOf(own, "value"))) {
    return EnvFate::kIsRefused;
  }
  if (name == "JAVA_TOOL_OPTIONS") return is_seen ? EnvFate::kIsAppendedTo : EnvFate::kIsRefused;
  return EnvFate::kStays;
}

std::string Refusal(const Json& container, std::string_view variable) {
  return fmt::format(
      "its container {} sets {} itself, which leads its calls past Recourse: remove that variable; "
      "or, if the container is no agent, name those that are by the annotation "
      "recourse.dev/containers",
      TextOf(container, "name"), variable);
}

}  // namespace

std::expected<InjectedEnv, std::string> InjectedEnvFor(const Json& container,
                                                       const PodTemplate& from) {
  const Json* const own = container.Find("env");
  InjectedEnv env;
  for (const Json& variable : from.agent_env) {
    const std::string_view name = TextOf(variable, "name");
    const std::string_view ours = TextOf(variable, "value");
    bool is_set = false;
    for (std::size_t i = 0; own != nullptr && i < own->items.size(); ++i) {
      const Json& item = own->items[i];
      if (TextOf(item, "name") != name) continue;
      is_set = true;
      const std::string_view value = TextOf(item, "value");
      if (value == ours) continue;
      const EnvFate fate = FateOf(item);
      if (fate == EnvFate::kIsRefused) return std::unexpected(Refusal(container, name));
      if (fate == EnvFate::kStays) {
        env.kept.append(env.kept.empty() ? "" : ", ").append(name);
      } else if (value.find(ours) == std::string_view::npos) {
        env.changed.emplace_back(
            i, value.empty() ? std::string(ours) : fmt::format("{} {}", value, ours));
      }
    }
    if (!is_set) env.added.push_back(variable);
  }
  return env;
}

}  // namespace recourse
