#include "proxy/suggest/traffic_replay.h"

#include <string_view>

#include "policy/language/loader.h"
#include "proxy/config/config.h"
#include "proxy/suggest/kept_calls.h"
#include "proxy/traffic/seen_call.h"
#include "proxy/traffic/traffic_file.h"
#include "proxy/traffic/traffic_trial.h"

namespace recourse {

int ReplayTraffic(const TrafficReplayOptions& options, std::ostream& out, std::ostream& err) {
  const LoadedPolicy loaded = LoadPolicy(options.policy);
  if (!loaded.ok()) {
    for (const PolicyProblem& problem : loaded.problems) err << problem.ToString() << "\n";
    return kExitPolicy;
  }
  const auto kept = ReadKeptCalls({options.data, options.install_secret, options.since}, err);
  if (!kept) {
    err << "recourse: " << kept.error() << "\n";
    return kExitUsage;
  }
  const TrafficKeys keys(kept->secret);
  const SeenHash hash = [&](std::string_view value) { return HashSeen(value, keys.hashing); };
  const TrafficTrial trial = TryTraffic(*loaded.policy, kept->seen, hash);
  out << TrialText(trial, kept->seen, options.policy, loaded.policy->mode) << std::flush;
  return trial.merged > 0 ? kExitRuntime : kExitOk;
}

}  // namespace recourse
