// What enforcing a policy would have made of the calls that observe mode has seen: what each tool's
// calls would have come to, the repeats that would have been caught, and, which loses writes, calls
// of two intents that would have been one. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "policy/explain/observed_counts.h"
#include "policy/model/policy.h"
#include "policy/suggest/sighting.h"
#include "proxy/traffic/seen_write.h"

namespace recourse {

// A call that counts as one with an earlier one.
struct TrialRepeat {
  std::string tool;
  std::size_t first = 0, again = 0;  // numbers of sightings
};

// One that does, though the other's answer had arrived, and its own differs from that, or neither
// tells anything and their arguments differ.
struct TrialMerge : TrialRepeat {
  bool is_refused = false;                      // for its other arguments (422); else replayed
  std::vector<std::string> arguments, answers;  // places where they differ
};

struct CaughtRepeats {
  std::size_t all = 0, after_answer = 0;  // those whose first call's answer had arrived
  TrialRepeat example;
};

struct TrafficTrial {
  std::size_t calls = 0, reads = 0;
  std::map<std::string, ObservedCounts> tools;  // by name
  std::map<std::string, CaughtRepeats> caught;  // likewise
  std::map<std::string, std::size_t> refused;   // by the tool and why
  std::map<std::string, std::size_t> untold;    // likewise
  std::size_t merged = 0;
  std::vector<TrialMerge> merges;  // the first kMergesShown

  static constexpr std::size_t kMergesShown = 20;
};

// `seen` is ordered by time.
TrafficTrial TryTraffic(const Policy& policy, const std::vector<Sighting>& seen,
                        const SeenHash& hash);

// For people. `policy` is how they named it.
std::string TrialText(const TrafficTrial& trial, const std::vector<Sighting>& seen,
                      const std::string& policy, Mode mode);

}  // namespace recourse
