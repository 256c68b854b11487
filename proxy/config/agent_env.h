// The environment that sends an agent's calls through Recourse, and has it trust the pod's CA.
#pragma once

#include <array>
#include <string>
#include <string_view>
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

// Each names the file of the CAs that some clients trust.
inline constexpr std::array kTrustVariables{
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "AWS_CA_BUNDLE",
    "PIP_CERT",      "GIT_SSL_CAINFO",     "DENO_CERT",      "CARGO_HTTP_CAINFO"};

using Variables = std::vector<std::pair<std::string, std::string>>;

// What well-known clients look at. `proxy` was checked: http://HOST:PORT.
Variables VariablesFor(const AgentEnv& env);

// Those of a proxy, and its exceptions, that are set here, in either case.
Variables ProxyVariablesHere();

// Of well-known clients that look at none of the proxy's variables, what they need in their place.
std::string_view WaysForTheOthers();

std::string Print(const Variables& variables, EnvForm form);

}  // namespace recourse
