// Was the promise kept? What the backends did, against what the ledger says of it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proxy/drill/scripted_backend.h"

namespace recourse {

// What a run left behind, at rest.
struct StepFound {
  std::string tool, phase;  // "SUCCEEDED"
};
struct FlowFound {
  std::string phase, reason;  // "NEEDS_HUMAN"
  std::vector<StepFound> steps;
};
struct Found {
  std::vector<Action> deeds;
  std::vector<FlowFound> flows;
  std::vector<bool> told_done;  // by call: whether the agent was told that it is done
  bool is_verified = false;     // every row of the ledger and its hash chain
  std::string problem;          // of the ledger, or of the run: then nothing is known of the rest
};

// A call of the script, as the check needs to know it.
struct Expected {
  std::string tool;
  bool has_undo = false;
};

struct DrillVerdict {
  std::size_t effects = 0, undone = 0;  // effects that were, and those of them that were undone
  std::string phase;                    // of the flow
  std::string parked;                   // why it waits for a human; empty: it does not
  std::vector<std::string> broken;      // how the promise was broken, for people; empty: kept
};

// One line of the story.
std::string LineOf(const Action& deed, const std::vector<Expected>& calls);

// `must_break`: the flow may not count as complete.
DrillVerdict Reckon(const std::vector<Expected>& calls, const Found& found, bool must_break);

}  // namespace recourse
