#include "proxy/drill/drill_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace recourse {
namespace {

// One call, seen from both sides.
struct Side {
  std::size_t effects = 0, undos = 0;
  std::vector<std::string> phases;  // of its steps, in any flow

  bool HasPhase(std::initializer_list<std::string_view> any) const {
    return std::ranges::any_of(phases, [&](const std::string& phase) {
      return std::ranges::find(any, phase) != any.end();
    });
  }
};

std::vector<Side> SidesOf(const std::vector<Expected>& calls, const Found& found) {
  std::vector<Side> sides(calls.size());
  for (const Action& deed : found.deeds) {
    if (deed.call >= sides.size()) continue;
    if (deed.kind == Action::Kind::kEffect) ++sides[deed.call].effects;
    if (deed.kind == Action::Kind::kUndone) ++sides[deed.call].undos;
  }
  for (const FlowFound& flow : found.flows) {
    for (const StepFound& step : flow.steps) {
      const auto at = std::ranges::find(calls, step.tool, &Expected::tool);
      if (at == calls.end()) continue;
      sides[static_cast<std::size_t>(at - calls.begin())].phases.push_back(step.phase);
    }
  }
  return sides;
}

// Nothing twice, nothing that the log does not know, nothing known that was not.
void CheckCall(const std::string& tool, const Side& side, bool told_done,
               std::vector<std::string>& broken) {
  if (side.effects > 1) {
    broken.push_back(fmt::format("{} took effect {} times", tool, side.effects));
  }
  if (side.undos > std::max<std::size_t>(1, side.effects)) {
    broken.push_back(fmt::format("the effect of {} was undone {} times", tool, side.undos));
  }
  const bool may_be =
      side.HasPhase({"DISPATCHING", "UNCERTAIN", "SUCCEEDED", "ANSWER_LOST", "COMPENSATED"});
  if (side.effects > 0 && !may_be) {
    broken.push_back(
        fmt::format("{} took effect, and the log {}", tool,
                    side.phases.empty() ? "knows nothing of it" : "says " + side.phases.back()));
  }
  if (side.effects == 0 && side.HasPhase({"SUCCEEDED", "ANSWER_LOST", "COMPENSATED"})) {
    broken.push_back(
        fmt::format("the log says {} of {}, which had no effect", side.phases.back(), tool));
  }
  if (told_done && side.effects == 0) {
    broken.push_back(fmt::format("the agent was told that {} is done, which had no effect", tool));
  }
  if (side.HasPhase({"COMPENSATED"}) && side.effects > 0 && side.undos == 0) {
    broken.push_back(fmt::format("the log says that {} is undone, but its effect stands", tool));
  }
}

// Newest first, and nothing new once that has begun.
void CheckOrder(const std::vector<Expected>& calls, const Found& found,
                std::vector<std::string>& broken) {
  const Action* last = nullptr;
  for (const Action& deed : found.deeds) {
    if (deed.kind == Action::Kind::kStrange) {
      broken.push_back("the backend was asked for what no call explains: " + deed.what);
    }
    if (deed.kind == Action::Kind::kEffect && last != nullptr) {
      broken.push_back(
          fmt::format("{} took effect while its flow was being undone", calls[deed.call].tool));
    }
    if (deed.kind != Action::Kind::kUndone) continue;
    if (last != nullptr && deed.call > last->call) {
      broken.push_back(fmt::format("{} was undone after {}, which came before it",
                                   calls[deed.call].tool, calls[last->call].tool));
    }
    last = &deed;
  }
}

void CheckFlow(const std::vector<Expected>& calls, const std::vector<Side>& sides,
               const FlowFound& flow, bool must_break, std::vector<std::string>& broken) {
  const bool is_complete = flow.phase == "COMMITTED" || flow.phase == "OPEN";
  if (!is_complete && flow.phase != "UNDONE" && flow.phase != "NEEDS_HUMAN") {
    broken.push_back("the flow did not come to an end: it is " + flow.phase);
  }
  if (flow.phase == "NEEDS_HUMAN" && flow.reason.empty()) {
    broken.emplace_back("the flow is parked without a reason");
  }
  if (is_complete && must_break) {
    broken.push_back("the flow should have broken, and is " + flow.phase);
  }
  for (const StepFound& step : flow.steps) {
    const auto at = std::ranges::find(calls, step.tool, &Expected::tool);
    if (at == calls.end()) {
      broken.push_back("the log tells of a call that nobody made: " + step.tool);
      continue;
    }
    const Side& side = sides[static_cast<std::size_t>(at - calls.begin())];
    const bool is_standing = side.effects > side.undos;
    if (flow.phase == "OPEN" && (step.phase == "DISPATCHING" || step.phase == "UNCERTAIN")) {
      broken.push_back(
          fmt::format("{} is forgotten: {}, and its flow is OPEN", step.tool, step.phase));
    }
    if (is_complete && side.undos > 0) {
      broken.push_back(fmt::format("{} was undone, and its flow is complete", step.tool));
    }
    if (flow.phase == "UNDONE" && at->has_undo && is_standing) {
      broken.push_back(fmt::format("{} stands, and its flow is said to be undone", step.tool));
    }
  }
}

}  // namespace

std::string LineOf(const Action& deed, const std::vector<Expected>& calls) {
  const std::string& tool = deed.call < calls.size() ? calls[deed.call].tool : deed.what;
  switch (deed.kind) {
    case Action::Kind::kEffect:
      return tool + " took effect";
    case Action::Kind::kRefused:
      return tool + " was refused";
    case Action::Kind::kRepeat:
      return tool + " came again under its key: nothing was done";
    case Action::Kind::kUndone:
      return tool + " was undone";
    case Action::Kind::kUndoAgain:
      return tool + " was to be undone again: nothing was done";
    case Action::Kind::kProbe:
      return deed.what == "found" ? "asked what became of " + tool + ": it is there"
                                  : "asked what became of a call: " + deed.what;
    case Action::Kind::kStrange:
      return "a request that no call explains: " + deed.what;
  }
  return {};
}

DrillVerdict Reckon(const std::vector<Expected>& calls, const Found& found, bool must_break) {
  DrillVerdict verdict;
  if (!found.problem.empty()) verdict.broken.push_back(found.problem);
  if (found.problem.empty() && !found.is_verified) {
    verdict.broken.emplace_back("the ledger does not verify");
  }
  const std::vector<Side> sides = SidesOf(calls, found);
  for (const Side& side : sides) {
    verdict.effects += side.effects;
    verdict.undone += side.undos;
  }
  if (!found.problem.empty()) return verdict;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const bool told_done = i < found.told_done.size() && found.told_done[i];
    CheckCall(calls[i].tool, sides[i], told_done, verdict.broken);
  }
  CheckOrder(calls, found, verdict.broken);
  for (const FlowFound& flow : found.flows) {
    CheckFlow(calls, sides, flow, must_break, verdict.broken);
    verdict.phase = flow.phase;
    if (flow.phase == "NEEDS_HUMAN") verdict.parked = flow.reason;
  }
  if (found.flows.empty()) verdict.broken.emplace_back("the log knows of no flow");
  return verdict;
}

}  // namespace recourse
