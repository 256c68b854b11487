// One run of a drill: an agent, the scripted backends, a proxy that is killed, and its restarts.
#pragma once

#include <string>
#include <vector>

#include "proxy/drill/drill_check.h"
#include "proxy/drill/drill_plan.h"
#include "proxy/drill/drilled_proxy.h"

namespace recourse {

struct RunResult {
  DrillVerdict verdict;
  std::vector<std::string> commits;  // of the first proxy: "payments.charge DISPATCHING"
  std::size_t struck = 0;            // kills that came; the others were not reached
  std::vector<std::string> story;    // what the backends did, for people
  std::string not_done;              // the first tool whose call the agent saw no success of
};

// The file of who may use the admin port in a run.
std::string DrillOperators();

// Plays the scenario in `directory`, which is there and empty, and is left with what it needed. The
// n-th proxy is killed at `kills[n]`, and the agent repeats what was not answered. Forks: call it
// in a process without other threads. Blocking, for at most limits::kDrillRunFor.
RunResult PlayScenario(const Scenario& scenario, const std::vector<KillAt>& kills,
                       const DrilledPolicy& policy, const std::string& directory);

// As one line of JSON, and back.
std::string ToJson(const RunResult& result);
std::optional<RunResult> RunResultFromJson(const std::string& text);

}  // namespace recourse
