// Flows: the writes that belong together, their phases, and the one transition table of flows.
// A flow is named by its caller and its flow id; a flow that ended makes room for the next one of
// that name, unless it was undone or waits for a human.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filters/ledger/model/event.h"
#include "proxy/base/clock.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

// Stored as numbers: never renumber.
enum class FlowPhase : std::uint8_t {
  kNone = 0,
  kOpen = 1,        // takes steps
  kCommitted = 2,   // complete; only a human may still undo it
  kBreaking = 3,    // fenced; what runs is awaited, what is unknown is settled
  kUndoing = 4,     // every outcome is known; undo requests go out in reverse order
  kUndone = 5,      // the undoing is complete
  kNeedsHuman = 6,  // parked, with its reason
};
inline constexpr int kFlowPhaseCount = 7;

// Why a flow moved; stored as a number: never renumber.
enum class FlowCause : std::uint8_t {
  kNone = 0,
  kFirstStep = 1,
  kEndsWith = 2,     // the tool of `ends_with` succeeded
  kClosed = 3,       // by its agent
  kCanceled = 4,     // by its agent, or by the tool of `canceled_by`
  kDeadline = 5,     // passed with unfinished business
  kStepFailed = 6,   // a tool with breaks_flow
  kStepUnknown = 7,  // a tool with breaks_flow: on_unknown
  kHuman = 8,        // an operator closed, canceled, undid or retried it
  kSettled = 9,      // every outcome is known
  kAllUndone = 10,
  kStuck = 11,  // an undo request, or a settlement, did not come through
  kIdle = 12,   // no write for kFlowIdle, and nothing unknown
};
inline constexpr int kFlowCauseCount = 13;

// What became of a step's effect when its flow broke, beside what its phase says.
enum class StepEnd : std::uint8_t {
  kNone = 0,
  kNotNeeded = 1,  // a human decided that its effect stays
};

// An operation in its flow.
struct FlowStep {
  std::uint64_t operation = 0;
  Phase phase = Phase::kNone;  // of its last event
  std::uint64_t success = 0;   // row of the event that proved its effect: the undo order
  bool has_undo = false;       // an undo request is stored with it
  StepEnd end = StepEnd::kNone;
  std::uint64_t undo = 0;           // the operation that undoes it; 0: none was begun
  Phase undo_phase = Phase::kNone;  // of that operation's last event
  std::uint16_t undo_attempts = 0;
  // As many as it had when its flow came into its phase: tries are counted from there, over
  // restarts too. In no row: it is what the flow's last such row says of the attempts.
  std::uint16_t undo_base = 0;

  friend bool operator==(const FlowStep&, const FlowStep&) = default;
};

struct FlowState {
  std::uint64_t number = 0;  // event with which its first step began: names the flow for good
  std::string id, caller;
  std::string name;            // of the policy's flow; empty: of none
  std::string policy_version;  // of the step that brought it its name and deadline, else the first
  std::vector<std::string> other_versions{};  // of its other steps, each once
  bool has_deadline = false;
  FlowPhase phase = FlowPhase::kNone;
  FlowCause cause = FlowCause::kNone;
  std::string reason;  // for people, bounded; never holds anything of a request or an answer
  std::int64_t began_ms = 0, changed_ms = 0;  // wall clock
  std::uint64_t row = 0;                      // of the last flow row; 0: only its steps tell of it
  std::vector<FlowStep> steps;                // in the order of their first dispatch
  // Another process that shares the ledger sees to it. In no row; known where flows are listed.
  bool is_others = false;
};

// A step, and as it was when somebody decided what becomes of its flow.
struct NamedStep {
  std::uint64_t operation = 0;
  std::optional<Digest> key{};  // see IsMeant
  Phase phase = Phase::kNone;
};

// The move of one flow. `from` is compared first.
struct FlowMove {
  // Of that flow, as it is there.
  static FlowMove Of(const FlowState& state, FlowPhase to, FlowCause cause, std::string reason);

  std::uint64_t number = 0;  // 0: the flow that `caller` calls `flow`, not over
  std::string caller{}, flow{};
  std::int64_t began_ms = 0;  // with its name: as IsMeant; 0: whatever flow has the number is meant
  FlowPhase from = FlowPhase::kOpen;
  FlowPhase to = FlowPhase::kBreaking;
  FlowCause cause = FlowCause::kNone;
  std::string reason;
  std::vector<NamedStep> not_needed{};  // whose effect stays, by a human's word
  // Refused while a step of these tools is open that is not among `seen`, in that phase.
  std::vector<std::string> deciding{};
  std::vector<NamedStep> seen{};
  // A finished flow that the ledger no longer holds in memory, as read back from its events.
  std::optional<FlowState> reopened{};
  std::optional<MonoTime> told_by{};  // see Transition; it then happens only if it is on its way
};

inline FlowMove FlowMove::Of(const FlowState& state, FlowPhase to, FlowCause cause,
                             std::string reason) {
  FlowMove move;
  move.number = state.number;
  move.caller = state.caller;
  move.flow = state.id;
  move.began_ms = state.began_ms;
  move.from = state.phase;
  move.to = to;
  move.cause = cause;
  move.reason = std::move(reason);
  return move;
}

std::string_view NameOf(FlowPhase phase);  // "NEEDS_HUMAN"
std::string_view NameOf(FlowCause cause);  // "ends_with"
std::optional<FlowPhase> FlowPhaseFromName(std::string_view name);

// The transition table of flows.
bool IsLegal(FlowPhase from, FlowPhase to);
// Nothing moves it any more without a human.
bool IsFinal(FlowPhase phase);
// A new write of the flow is refused.
bool IsFenced(FlowPhase phase);

// Parked by its deadline alone (`on_deadline: ask`): nothing broke it, every outcome is known, and
// nobody has asked for its undo. It waits for a word, not for a repair.
bool IsStopped(const FlowState& state);

Digest FlowKeyOf(std::string_view caller, std::string_view flow);
// The key of the operation that undoes the one with this key; it goes upstream in hex.
Digest UndoKeyOf(const Digest& forward, std::uint64_t operation);

// Its effect stands as far as anyone knows, and nobody said that it may.
bool NeedsUndo(const FlowStep& step);

}  // namespace recourse
