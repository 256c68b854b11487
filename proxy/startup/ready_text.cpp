#include "proxy/startup/ready_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "proxy/base/log/log.h"
#include "proxy/config/terminal.h"

namespace recourse {
namespace {

std::string Url(const Tcp::endpoint& endpoint, bool is_secure) {
  const bool is_v6 = endpoint.address().is_v6();
  return fmt::format("{}://{}{}{}:{}", is_secure ? "https" : "http", is_v6 ? "[" : "",
                     endpoint.address().to_string(), is_v6 ? "]" : "", endpoint.port());
}

}  // namespace

std::string ReadyText(const Config& config, const Policy& policy, const Listeners& listeners) {
  std::string out = fmt::format(
      "recourse {} is ready\n"
      "  mode      {}\n"
      "  policy    {}, version {}: {} backend{}, {} tool{}\n"
      "  {:<10}{}\n"
      "  page      {}/\n"
      "  probes    {}/ready, /live, /metrics\n",
      RECOURSE_VERSION,
      policy.mode == Mode::kObserve ? "observe: nothing is held back, `recourse report` says what "
                                      "enforcing would have done"
                                    : "enforce",
      config.policy, policy.version, policy.backends.size(), policy.backends.size() == 1 ? "" : "s",
      policy.tools.size(), policy.tools.size() == 1 ? "" : "s",
      config.listen.empty() ? "steward" : "agents",
      config.listen.empty() ? "no agent calls it" : Url(listeners.agents, !config.tls_cert.empty()),
      Url(listeners.admin, !config.admin_tls_cert.empty()), Url(listeners.probes, false));
  if (config.admin_token_file.empty() && config.operators.empty()) {
    out +=
        "  nobody can log in yet: `openssl rand -hex 32 > token; chmod 600 token`, and start with\n"
        "            --admin-token-file token, or name people with --operators FILE\n";
  }
  return out + "Ctrl-C drains and ends it.\n";
}

void TellReady(const Config& config, const Policy& policy, const Listeners& listeners) {
  if (IsTerminal(STDERR_FILENO)) {
    std::fputs(ReadyText(config, policy, listeners).c_str(), stderr);
    return;
  }
  Log(LogLevel::kInfo, "ready",
      {{"listen", std::to_string(listeners.agents.port())},
       {"admin", std::to_string(listeners.admin.port())},
       {"probes", std::to_string(listeners.probes.port())},
       {"mode", policy.mode == Mode::kObserve ? "observe" : "enforce"},
       {"policy", policy.version}});
}

}  // namespace recourse
