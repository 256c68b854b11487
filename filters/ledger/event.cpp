#include "filters/ledger/event.h"

#include <array>

#include "proxy/base/check.h"

namespace recourse {
namespace {

constexpr std::array<std::string_view, kPhaseCount> kPhaseNames = {
    "NONE",        "CLAIMED",       "APPROVED",    "DENIED",      "EXPIRED",
    "DISPATCHING", "UNCERTAIN",     "SUCCEEDED",   "ANSWER_LOST", "NOT_SENT",
    "REJECTED",    "PROVEN_ABSENT", "COMPENSATED", "TOMBSTONE"};

constexpr std::array<std::string_view, 4> kStatusNames = {"PENDING", "SUCCESS", "FAILED",
                                                          "COMPENSATED"};

constexpr std::array<std::string_view, 15> kCauseNames = {
    "none",          "first_call",      "repeat",         "answer",       "connect_failed",
    "timeout",       "connection_lost", "protocol_error", "server_error", "crash",
    "probe_present", "probe_absent",    "human",          "canceled",     "resend"};

constexpr std::uint32_t Bit(Phase phase) { return 1U << static_cast<unsigned>(phase); }

template <class... Phases>
constexpr std::uint32_t To(Phases... phases) {
  return (0U | ... | Bit(phases));
}

struct PhaseFacts {
  Status status;
  bool is_final;
  std::uint32_t to;  // one bit per phase that may follow
};

// Semantics 2.4, row by row. Retention may bury whatever is final. UNCERTAIN may become ANSWER_LOST
// because a probe, or a late answer that was cut, can show the effect without its answer.
constexpr std::array<PhaseFacts, kPhaseCount> kTable = {{
    /* kNone */ {Status::kPending, false, To(Phase::kClaimed, Phase::kDispatching)},
    /* kClaimed */
    {Status::kPending, false, To(Phase::kApproved, Phase::kDenied, Phase::kExpired)},
    /* kApproved */ {Status::kPending, false, To(Phase::kDispatching, Phase::kExpired)},
    /* kDenied */ {Status::kFailed, true, To(Phase::kTombstone)},
    /* kExpired */ {Status::kFailed, true, To(Phase::kTombstone)},
    /* kDispatching */
    {Status::kPending, false,
     To(Phase::kUncertain, Phase::kSucceeded, Phase::kAnswerLost, Phase::kNotSent,
        Phase::kRejected)},
    /* kUncertain */
    {Status::kPending, false,
     To(Phase::kDispatching, Phase::kSucceeded, Phase::kAnswerLost, Phase::kRejected,
        Phase::kProvenAbsent)},
    /* kSucceeded */ {Status::kSuccess, true, To(Phase::kCompensated, Phase::kTombstone)},
    /* kAnswerLost */
    {Status::kSuccess, true, To(Phase::kSucceeded, Phase::kCompensated, Phase::kTombstone)},
    /* kNotSent */ {Status::kFailed, true, To(Phase::kDispatching, Phase::kTombstone)},
    /* kRejected */ {Status::kFailed, true, To(Phase::kDispatching, Phase::kTombstone)},
    /* kProvenAbsent */ {Status::kFailed, true, To(Phase::kDispatching, Phase::kTombstone)},
    /* kCompensated */ {Status::kCompensated, true, To(Phase::kTombstone)},
    /* kTombstone */ {Status::kFailed, true, To()},
}};

const PhaseFacts& FactsOf(Phase phase) {
  RC_CHECK(static_cast<std::size_t>(phase) < kTable.size());
  return kTable[static_cast<std::size_t>(phase)];
}

template <class Value, std::size_t Count>
std::optional<Value> FromName(const std::array<std::string_view, Count>& names,
                              std::string_view name) {
  for (std::size_t i = 0; i < Count; ++i) {
    if (names[i] == name) return static_cast<Value>(i);
  }
  return std::nullopt;
}

}  // namespace

Status StatusOf(Phase phase) { return FactsOf(phase).status; }

std::string_view NameOf(Phase phase) { return kPhaseNames.at(static_cast<std::size_t>(phase)); }
std::string_view NameOf(Status status) { return kStatusNames.at(static_cast<std::size_t>(status)); }
std::string_view NameOf(Cause cause) { return kCauseNames.at(static_cast<std::size_t>(cause)); }

std::optional<Phase> PhaseFromName(std::string_view name) {
  return FromName<Phase>(kPhaseNames, name);
}
std::optional<Status> StatusFromName(std::string_view name) {
  return FromName<Status>(kStatusNames, name);
}

bool IsLegal(Phase from, Phase to) { return (FactsOf(from).to & Bit(to)) != 0; }
bool IsFinal(Phase phase) { return FactsOf(phase).is_final; }
bool IsOpen(Phase phase) { return phase == Phase::kDispatching || phase == Phase::kUncertain; }

bool MayHaveEffect(Phase phase) {
  return IsOpen(phase) || phase == Phase::kSucceeded || phase == Phase::kAnswerLost;
}

}  // namespace recourse
