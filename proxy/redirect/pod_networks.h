// Networks of pods of this machine, whose processes wait for the rules of redirect.
#pragma once

#include <sys/types.h>

#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/redirect/redirect_rules.h"

namespace recourse {

// A process `recourse redirect await ...` with the words after those.
struct WaitingProcess {
  pid_t pid = 0;
  std::vector<std::string> options;
};
// Writes rules into the network of each such process at /proc, once: whoever comes later changes
// nothing there, as agents may start such a process, too. Never into the network of this process or
// of process 1. Needs CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_SYS_PTRACE.
class PodNetworks {
 public:
  // What a process asks for; fails with a line for people.
  using Parse = std::expected<RedirectRules, std::string> (*)(const std::vector<std::string>&);
  explicit PodNetworks(Parse parse) : parse_(parse) {}

  // Looks once; gives what there is to tell, each once for a process.
  std::vector<std::string> Look();

 private:
  std::string Serve(const WaitingProcess& waiting) const;

  const Parse parse_;
  std::map<pid_t, std::string> told_;  // of processes that still wait
};

}  // namespace recourse
