// What a drill found, for people and for programs. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proxy/drill/drill_plan.h"
#include "proxy/drill/drill_run.h"

namespace recourse {

// One run: without a kill, with one, or with a second one soon after the restart.
struct DrillRow {
  std::size_t flow = 0, scenario = 0;  // indexes into the plan
  enum class Kill : std::uint8_t { kNone, kBefore, kAfter, kTwice };
  Kill kill = Kill::kNone;
  std::size_t commit = 0;  // from 1
  std::string at;          // what that commit says: "payments.charge DISPATCHING"
  bool is_reached = true;  // the kill came
  bool was_run = false;    // false: there was no time left for it
  RunResult result;
};

struct DrillFindings {
  std::string policy;  // as it was named
  DrillPlan plan;
  std::shared_ptr<const Policy> loaded{};  // that the plan points into
  std::vector<DrillRow> rows;              // by flow, scenario and commit
  Millis took{};
  Ambiguities doubts{};
  bool is_observing = false;  // the policy says observe; the drill enforced it
};

struct DrillSums {
  std::size_t kills = 0, broken = 0, parked = 0, not_reached = 0, not_run = 0;
  bool is_kept() const { return broken == 0 && not_run == 0; }
};
DrillSums SumsOf(const DrillFindings& findings);

// A line, and what to know of kills that did not come and of runs that broke.
std::string DrillSummary(const DrillFindings& findings);
std::string DrillTable(const DrillFindings& findings);
std::string DrillJson(const DrillFindings& findings);

}  // namespace recourse
