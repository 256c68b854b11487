// A proxy as a process of its own, forked and not executed: it has the policy and everything else
// that a real run has from flags as values, so nothing outside this program can ask for such a run.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/files/sources.h"
#include "policy/language/loader.h"
#include "proxy/base/clock.h"
#include "proxy/drill/commit_watch.h"

namespace recourse {

// Where a proxy is killed: at its commit number `commit` (from 1; only those count that tell of an
// operation or a flow), before any of it is durable or after all of it is.
struct KillAt {
  enum class Edge : std::uint8_t { kBefore, kAfter };
  std::size_t commit = 0;  // 0: never
  Edge edge = Edge::kBefore;
};

// The policy of a drill: a private copy of its files, and what they say. A proxy that finds them as
// they were takes that over, since loading them is most of its start.
struct DrilledPolicy {
  std::string path, operators_file;
  std::vector<PolicySource> files;
  LoadedPolicy loaded;
};

struct DrilledProxyParts {
  const DrilledPolicy& policy;
  std::string address;  // that it listens at, of the run alone
  std::string data, log_file;
  Millis deadline{};  // of flows
  KillAt kill;
  const Clock& clock;
};

// Waits as a process that has done nothing until Start, so that it may be made before this process
// has any thread: a fork beside threads would copy their locks. It dies with this process.
class DrilledProxy {
 public:
  explicit DrilledProxy(const DrilledProxyParts& parts);
  ~DrilledProxy();  // kills it
  DrilledProxy(const DrilledProxy&) = delete;
  DrilledProxy& operator=(const DrilledProxy&) = delete;

  // Lets it run, with all backends at that port of 127.0.0.1.
  void Start(std::uint16_t backend_port);
  // Once it runs: how it ended, for people; nullopt: it still runs.
  std::optional<std::string> Ended();
  // Ended by the kill that it was made for.
  bool is_struck() const { return is_struck_; }
  // Where it serves, once it does; waits for that, or for its end, no longer than `patience`.
  struct Ports {
    std::string agents, admin;
  };
  std::optional<Ports> AwaitPorts(Millis patience);
  // Its commits so far.
  const std::vector<std::vector<RowNote>>& Commits();

 private:
  void ReadNotes();

  pid_t pid_ = -1;
  int start_ = -1, notes_ = -1;
  bool is_struck_ = false;
  std::optional<std::string> ended_;
  std::string unread_;
  std::vector<std::vector<RowNote>> commits_;
  std::optional<Ports> ports_;
};

}  // namespace recourse
