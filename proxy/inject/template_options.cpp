#include "proxy/inject/template_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "proxy/inject/json_patch.h"

namespace recourse {
namespace {

// Of these the sidecar's flags say where it listens, each ADDRESS:PORT or PORT.
constexpr std::string_view kPortFlags[] = {"listen", "admin", "probes", "redirect"};

Json& MemberOf(Json& object, std::string_view name) {
  object.kind = Json::Kind::kObject;
  for (auto& [key, value] : object.members) {
    if (key == name) return value;
  }
  return object.members.emplace_back(std::string(name), Json()).second;
}

Json* FindFlag(Json& container, std::string_view flag) {
  const std::string begin = fmt::format("--{}=", flag);
  for (Json& arg : MemberOf(container, "args").items) {
    if (arg.text.starts_with(begin)) return &arg;
  }
  return nullptr;
}

void SetFlag(Json& container, std::string_view flag, std::string_view value) {
  const Json said = JsonText(fmt::format("--{}={}", flag, value));
  if (Json* const found = FindFlag(container, flag)) {
    *found = said;
  } else {
    MemberOf(container, "args").items.push_back(said);
  }
}

std::string_view PortIn(std::string_view flag) { return flag.substr(flag.find_last_of(":=") + 1); }

std::string WithPort(const std::string& flag, std::string_view port) {
  return flag.substr(0, flag.find_last_of(":=") + 1) + std::string(port);
}

// Each place in the text where the number stands alone.
std::string WithNumber(std::string text, std::string_view old, std::string_view number) {
  const auto is_digit = [&](std::size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  for (std::size_t at = text.find(old); at != std::string::npos; at = text.find(old, at)) {
    if ((at > 0 && is_digit(at - 1)) || is_digit(at + old.size())) {
      at += old.size();
      continue;
    }
    text.replace(at, old.size(), number);
    at += number.size();
  }
  return text;
}

void MoveProbes(PodTemplate& to, Json& sidecar, std::string_view old, const std::string& port) {
  for (Json& item : MemberOf(sidecar, "ports").items) {
    Json& number = MemberOf(item, "containerPort");
    if (ScalarText(number) == old) number.text = port + "e0";
  }
  for (auto& [name, list] : to.annotation_lists.members) {
    list.text = WithNumber(list.text, old, port);
  }
}

void MovePort(PodTemplate& to, Json& sidecar, const std::string& flag, const std::string& port) {
  Json* const arg = FindFlag(sidecar, flag);
  if (arg == nullptr) return;  // it has no such port
  const std::string old(PortIn(arg->text));
  arg->text = WithPort(arg->text, port);
  if (flag == "probes") MoveProbes(to, sidecar, old, port);
  if (flag == "listen") {
    for (Json& variable : to.agent_env) {
      Json& value = MemberOf(variable, "value");
      value.text = WithNumber(value.text, old, port);
    }
  }
  if (flag == "redirect") {
    for (Json& container : to.init_containers) {
      if (TextOf(container, "name") != kSidecarName) SetFlag(container, "port", port);
    }
  }
}

void SetConfigMap(Json& volume, const std::string& config_map) {
  MemberOf(MemberOf(volume, "configMap"), "name") = JsonText(config_map);
}

void Change(PodTemplate& to, const PodOptions& options, Json& sidecar) {
  if (options.log_level) SetFlag(sidecar, "log-level", *options.log_level);
  if (options.ledger_max) SetFlag(sidecar, "ledger-max", *options.ledger_max);
  for (const auto& [where, quantity] : options.resources) {
    const std::size_t slash = where.find('/');
    Json& list = MemberOf(MemberOf(sidecar, "resources"), where.substr(0, slash));
    MemberOf(list, where.substr(slash + 1)) = JsonText(quantity);
  }
  for (const auto& [name, port] : options.ports) {
    MovePort(to, sidecar, name == "proxy" ? "listen" : name, port);
  }
}

}  // namespace

PodTemplate TemplateFor(const PodOptions& options, const PodTemplate& from) {
  PodTemplate to = from;
  for (Json& container : to.init_containers) {
    if (TextOf(container, "name") == kSidecarName) Change(to, options, container);
  }
  for (Json& volume : to.volumes) {
    if (options.policy && TextOf(volume, "name") == kPolicyVolume) {
      SetConfigMap(volume, *options.policy);
    }
  }
  return to;
}

std::vector<Json> InitContainersFor(const Json* ledger, const PodTemplate& from) {
  std::vector<Json> containers = from.init_containers;
  const std::string_view limit =
      ledger == nullptr ? std::string_view() : TextAt(*ledger, "/emptyDir/sizeLimit");
  for (Json& container : containers) {
    if (limit.empty() || TextOf(container, "name") != kSidecarName) continue;
    Json& requests = MemberOf(MemberOf(container, "resources"), "requests");
    Json& storage = MemberOf(requests, "ephemeral-storage");
    if (storage.kind == Json::Kind::kNull) storage = JsonText(limit);
  }
  return containers;
}

std::vector<std::int64_t> PortsOf(const PodTemplate& from) {
  std::vector<std::int64_t> ports;
  Json sidecar = from.sidecar();
  for (const std::string_view flag : kPortFlags) {
    const Json* const arg = FindFlag(sidecar, flag);
    if (arg == nullptr) continue;
    const std::string_view text = PortIn(arg->text);
    std::int64_t port = 0;
    std::from_chars(text.data(), text.data() + text.size(), port);
    ports.push_back(port);
  }
  return ports;
}

}  // namespace recourse
