#include "filters/ledger/model/flow.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "proxy/base/bytes.h"
#include "proxy/base/check.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/latest_texts.h"

namespace recourse {
namespace {

constexpr std::array<std::string_view, kFlowPhaseCount> kFlowPhaseNames = {
    "NONE", "OPEN", "COMMITTED", "BREAKING", "UNDOING", "UNDONE", "NEEDS_HUMAN"};

constexpr std::array<std::string_view, kFlowCauseCount> kFlowCauseNames = {
    "none",         "first_step", "ends_with", "closed",     "canceled", "deadline", "step_failed",
    "step_unknown", "human",      "settled",   "all_undone", "stuck",    "idle"};

constexpr unsigned FlowBit(FlowPhase phase) { return 1U << static_cast<unsigned>(phase); }

template <class... Phases>
constexpr unsigned ToFlow(Phases... phases) {
  return (0U | ... | FlowBit(phases));
}

// From each phase, those that may follow.
constexpr std::array<unsigned, kFlowPhaseCount> kFlowTable = {
    /* kNone */ ToFlow(FlowPhase::kOpen),
    /* kOpen */ ToFlow(FlowPhase::kCommitted, FlowPhase::kBreaking, FlowPhase::kNeedsHuman),
    /* kCommitted */ ToFlow(FlowPhase::kBreaking),  // by a human
    /* kBreaking */ ToFlow(FlowPhase::kUndoing, FlowPhase::kNeedsHuman),
    /* kUndoing */  // itself: another step was found to need no undo
    ToFlow(FlowPhase::kUndoing, FlowPhase::kUndone, FlowPhase::kNeedsHuman),
    /* kUndone */ ToFlow(),
    /* kNeedsHuman */ ToFlow(FlowPhase::kBreaking, FlowPhase::kCommitted),
};

}  // namespace

std::string_view NameOf(FlowPhase phase) {
  return kFlowPhaseNames.at(static_cast<std::size_t>(phase));
}
std::string_view NameOf(FlowCause cause) {
  return kFlowCauseNames.at(static_cast<std::size_t>(cause));
}

std::optional<FlowPhase> FlowPhaseFromName(std::string_view name) {
  for (std::size_t i = 0; i < kFlowPhaseNames.size(); ++i) {
    if (EqualsIgnoreCase(kFlowPhaseNames[i], name)) return static_cast<FlowPhase>(i);
  }
  return std::nullopt;
}

bool IsLegal(FlowPhase from, FlowPhase to) {
  return (kFlowTable.at(static_cast<std::size_t>(from)) & FlowBit(to)) != 0;
}

bool IsFinal(FlowPhase phase) {
  return phase == FlowPhase::kCommitted || phase == FlowPhase::kUndone;
}

bool IsFenced(FlowPhase phase) {
  return phase == FlowPhase::kBreaking || phase == FlowPhase::kUndoing ||
         phase == FlowPhase::kUndone || phase == FlowPhase::kNeedsHuman;
}

bool IsStopped(const FlowState& state) {
  return state.phase == FlowPhase::kNeedsHuman && state.cause == FlowCause::kDeadline &&
         std::ranges::none_of(state.steps, [](const FlowStep& step) { return IsOpen(step.phase); });
}

Digest FlowKeyOf(std::string_view caller, std::string_view flow) {
  // Asked for at every row of a flow's steps.
  constexpr std::size_t kTextBytes = 122, kFlows = 256;
  constexpr std::string_view kVersion = "recourse-flow";
  const std::array<std::string_view, 2> parts{caller, flow};
  std::array<char, kTextBytes> text;
  std::size_t size = kVersion.copy(text.data(), text.size());
  if (caller.size() + flow.size() > text.size() - size - parts.size() * sizeof(std::uint64_t)) {
    std::string long_text(kVersion);
    for (const std::string_view part : parts) AppendPart(long_text, part);
    return Sha256(long_text);
  }
  // As AppendPart does, without taking memory.
  for (const std::string_view part : parts) {
    const std::uint64_t length = part.size();  // little-endian hosts only (bytes.h)
    std::memcpy(text.data() + size, &length, sizeof length);
    size += sizeof length;
    size += part.copy(text.data() + size, part.size());
  }
  return LatestOf<Sha256, kTextBytes, kFlows>({text.data(), size});
}

Digest UndoKeyOf(const Digest& forward, std::uint64_t operation) {
  std::string text("recourse-undo");
  text.append(AsView(forward));
  ByteWriter(text).Int(operation);
  return Sha256(text);
}

bool NeedsUndo(const FlowStep& step) {
  return MayHaveEffect(step.phase) && step.end == StepEnd::kNone;
}

}  // namespace recourse
