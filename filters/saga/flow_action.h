// What an operator does to a flow, and what that means to it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/outcome_resolver.h"
#include "policy/model/policy.h"

namespace recourse {

// `reason` says who and why, for the log.
struct FlowAction {
  enum class Kind : std::uint8_t {
    kClose,      // an open or parked flow: what was done stays
    kCancel,     // an open flow: undo it
    kUndo,       // a committed flow: undo it all the same
    kRetry,      // a parked flow: try again what was stuck
    kDone,       // a step of a parked flow: it was undone by hand
    kNotNeeded,  // a step of a parked flow: its effect may stay
    kHappened,   // a step of unknown outcome had its effect
    kAbsent,     // a step of unknown outcome had none
  };
  Kind kind = Kind::kRetry;
  std::uint64_t number = 0;
  std::uint64_t operation = 0;  // of the step, where one is meant
  std::string reason;
  std::string external_ref{};        // of kHappened; may be empty
  std::optional<FlowState> found{};  // as the log tells it, where the flow may be over
};

// What stands in the way, for people; empty: nothing. `flow` is the policy's, or nullptr.
std::string ObjectionToAction(const FlowAction& action, const FlowState& state, const Flow* flow);

// A human confirms what is recorded of the step already.
bool IsTold(const FlowAction& action, Phase step);

FlowMove MoveOf(const FlowAction& action, const FlowState& state);
Transition DoneTransition(const FlowAction& action, const Event& step);
HumanWord WordOf(const FlowAction& action, const Event& step);

// What a human's retry is about: tries that failed or that nobody knows the end of, and the step at
// which the flow stopped.
std::set<std::uint64_t> StuckSteps(const FlowState& state);

// A parked flow goes on.
Transition::FlowEffect Resuming(const std::string& reason);
// Parked because nobody knew, or because an undo did not come through. One that its deadline
// stopped waits for another word.
bool WaitsForOutcome(const FlowState& state);

}  // namespace recourse
