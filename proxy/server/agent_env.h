// The environment that sends an agent's calls through Recourse, and has it trust the pod's CA.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace recourse {

enum class EnvForm : std::uint8_t { kSh, kDotenv, kKubernetes, kJson };

struct AgentEnv {
  std::string proxy;             // "http://127.0.0.1:19080"
  std::string bundle;            // file: the system's CAs and the pod's; empty: none is named
  std::string java_trust_store;  // file: the same as a Java key store; empty: none is named
  std::string no_proxy;          // hosts, by commas
};

using Variables = std::vector<std::pair<std::string, std::string>>;

// What well-known clients look at. `proxy` was checked: http://HOST:PORT.
Variables VariablesFor(const AgentEnv& env);

std::string Print(const Variables& variables, EnvForm form);

}  // namespace recourse
