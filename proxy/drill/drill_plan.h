// What is drilled of a policy: its flows, and what happens to them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/model/policy.h"
#include "proxy/drill/scripted_backend.h"

namespace recourse {

// Who may do everything in a run, and approves whatever waits for a human.
inline constexpr std::string_view kDrillOperator = "drill";

// What an agent does, and what goes wrong.
struct Scenario {
  enum class Kind : std::uint8_t { kSucceeds, kFails, kCanceled, kLost, kDies };
  Kind kind = Kind::kSucceeds;
  std::string what;                  // for people
  std::vector<ScriptedCall> script;  // in the order in which the agent makes them
  Mishaps mishaps;
  bool operator_cancels = false;  // once the agent is done
  bool must_break = false;        // nothing of it may count as complete
  bool waits_for_deadline = false;
};

struct DrillFlow {
  std::string name;  // of the policy's flow, or what it is made of
  bool is_declared = true;
  std::vector<std::string> tools;  // that take part
  std::vector<Scenario> scenarios;
};

struct Skipped {
  std::string what, why;
};

struct DrillPlan {
  std::vector<DrillFlow> flows;
  std::vector<Skipped> skipped;  // tools and scenarios that cannot be drilled
};

// `flow` empty: all of them. Points into the policy.
DrillPlan PlanDrill(const Policy& policy, const std::string& flow);

// Turns a policy into one that knows no real backend, credential or webhook: all backends are at
// 127.0.0.1:`port`, over plain HTTP. Times that only make one wait get shorter, those that end a
// call get longer; `deadline` replaces those of flows. What waits for humans waits for
// kDrillOperator alone.
void AdaptPolicy(Policy& policy, std::uint16_t port, Millis deadline);

}  // namespace recourse
