#include "proxy/config/agent_env.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

// Java takes no variable of the others, but options.
std::string JavaOptions(const AgentEnv& env) {
  std::string_view authority = env.proxy;
  authority.remove_prefix(authority.find("://") + 3);
  const auto colon = authority.rfind(':');
  const std::string host(authority.substr(0, colon)), port(authority.substr(colon + 1));
  std::string options;
  for (const char* const scheme : {"http", "https"}) {
    options.append(options.empty() ? "" : " ")
        .append(std::string("-D") + scheme + ".proxyHost=" + host + " -D" + scheme +
                ".proxyPort=" + port);
  }
  std::string direct = env.no_proxy;
  std::ranges::replace(direct, ',', '|');
  options += " -Dhttp.nonProxyHosts=" + direct;
  if (!env.java_trust_store.empty()) {
    options += " -Djavax.net.ssl.trustStore=" + env.java_trust_store +
               " -Djavax.net.ssl.trustStoreType=JKS";
  }
  return options;
}

std::string QuotedForShell(std::string_view value) {
  std::string out = "'";
  for (const char c : value) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out.push_back(c);
    }
  }
  return out + "'";
}

std::string JsonText(std::string_view value) {
  std::string out;
  AppendJsonString(out, value);
  return out;
}

// docker's --env-file takes quotes for part of the value, so they are there only where needed.
std::string ForDotenv(std::string_view value) {
  const bool is_plain = value.find_first_of("#\"'\\$`\n") == std::string_view::npos;
  return is_plain ? std::string(value) : JsonText(value);
}

}  // namespace

Variables VariablesFor(const AgentEnv& env) {
  Variables all;
  // curl reads http_proxy in lower case alone; most others read either.
  for (const char* const name : {"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"}) {
    all.emplace_back(name, env.proxy);
  }
  // Empty too: what the agent's image sets would lead around Recourse.
  all.emplace_back("NO_PROXY", env.no_proxy);
  all.emplace_back("no_proxy", env.no_proxy);
  all.emplace_back("NODE_USE_ENV_PROXY", "1");
  if (!env.bundle.empty()) {
    for (const char* const name : kTrustVariables) all.emplace_back(name, env.bundle);
  }
  all.emplace_back("JAVA_TOOL_OPTIONS", JavaOptions(env));
  return all;
}

std::string_view WaysForTheOthers() {
  return R"(recourse: clients with an agent or a pool of their own go around the proxy's variables:
  stripe-node                   httpClient: Stripe.createFetchHttpClient()
  Node: http.Agent, AWS SDK v3  new http.Agent({ proxyEnv: process.env }), from 22.21, 24.5 on
  undici: Agent, Pool, Client   new EnvHttpProxyAgent()
  Python: aiohttp               ClientSession(trust_env=True)
  Python: urllib3.PoolManager   ProxyManager(os.environ["HTTP_PROXY"])
  Go: a Transport of its own    Proxy: http.ProxyFromEnvironment
  Java: Apache HttpClient       useSystemProperties()
Any client: give it --listen as its base url, or redirect the pod (recourse redirect install).
)";
}

std::string Print(const Variables& variables, EnvForm form) {
  std::string out;
  if (form == EnvForm::kJson) {
    {
      JsonObject json(out);
      for (const auto& [name, value] : variables) json.Text(name, value);
    }
    return out + "\n";
  }
  for (const auto& [name, value] : variables) {
    switch (form) {
      case EnvForm::kSh:
        out += "export " + name + "=" + QuotedForShell(value) + "\n";
        break;
      case EnvForm::kDotenv:
        out += name + "=" + ForDotenv(value) + "\n";
        break;
      default:
        out += "- name: " + name + "\n  value: " + JsonText(value) + "\n";
        break;
    }
  }
  return out;
}

Variables ProxyVariablesHere() {
  Variables set;
  for (const char* name : {"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY",
                           "all_proxy", "NO_PROXY", "no_proxy"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') set.emplace_back(name, value);
  }
  return set;
}

}  // namespace recourse
