#include "policy/model/intercepted_hosts.h"

#include <algorithm>

#include "policy/model/route_table.h"
#include "policy/uri/authority.h"

namespace recourse {
std::vector<std::string> InterceptedHosts(const Policy& policy) {
  std::vector<std::string> hosts;
  const auto add = [&hosts](std::string host) {
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(std::move(host));
  };
  for (const Backend& backend : policy.backends) {
    if (!policy.routes->Intercepts(backend)) continue;
    add(backend.host);
    for (const std::string& entry : backend.hosts) {
      if (auto authority = ParseAuthority(entry)) add(std::move(authority->host));
    }
  }
  return hosts;
}

}  // namespace recourse
