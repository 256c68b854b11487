#include "filters/ledger/model/event.h"

#include <array>

#include "proxy/base/check.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::array<std::string_view, kPhaseCount> kPhaseNames = {
    "NONE",        "CLAIMED",       "APPROVED",    "DENIED",      "EXPIRED",
    "DISPATCHING", "UNCERTAIN",     "SUCCEEDED",   "ANSWER_LOST", "NOT_SENT",
    "REJECTED",    "PROVEN_ABSENT", "COMPENSATED", "TOMBSTONE"};

constexpr std::array<std::string_view, 4> kStatusNames = {"PENDING", "SUCCESS", "FAILED",
                                                          "COMPENSATED"};

constexpr std::array<std::string_view, static_cast<std::size_t>(kLastCause) + 1> kCauseNames = {
    "none",          "first_call",      "repeat",         "answer",       "connect_failed",
    "timeout",       "connection_lost", "protocol_error", "server_error", "crash",
    "probe_present", "probe_absent",    "human",          "canceled",     "resend",
    "carried",       "undone",          "asked",          "expired",      "policy_changed",
    "flow_closed",   "approved",        "too_late",       "asks_input",   "rejected_now",
    "owner_lost"};

constexpr std::array<std::string_view, kObserveVerdictCount> kVerdictNames = {
    "none",           "fresh",      "would_replay", "would_join",
    "would_conflict", "would_hold", "would_refuse", "would_be_unknown",
    "would_resend",   "not_judged", "would_ask"};

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

// From each phase, those that may follow. Retention may bury whatever is final. UNCERTAIN may
// become ANSWER_LOST because a probe, or a late answer that was cut, can show the effect without
// its answer. CLAIMED follows itself while approvers add up, and what had no effect, as every
// attempt needs its own approval. An effect that arrives after its absence was proved makes
// PROVEN_ABSENT a success.
constexpr std::array<PhaseFacts, kPhaseCount> kTable = {{
    /* kNone */ {Status::kPending, false, To(Phase::kClaimed, Phase::kDispatching)},
    /* kClaimed */
    {Status::kPending, false,
     To(Phase::kClaimed, Phase::kApproved, Phase::kDenied, Phase::kExpired)},
    /* kApproved */ {Status::kPending, false, To(Phase::kDispatching, Phase::kExpired)},
    /* kDenied */ {Status::kFailed, true, To(Phase::kTombstone)},
    /* kExpired */ {Status::kFailed, true, To(Phase::kClaimed, Phase::kTombstone)},
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
    /* kNotSent */
    {Status::kFailed, true, To(Phase::kClaimed, Phase::kDispatching, Phase::kTombstone)},
    /* kRejected */
    {Status::kFailed, true, To(Phase::kClaimed, Phase::kDispatching, Phase::kTombstone)},
    /* kProvenAbsent */
    {Status::kFailed, true,
     To(Phase::kClaimed, Phase::kDispatching, Phase::kSucceeded, Phase::kAnswerLost,
        Phase::kTombstone)},
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
    if (EqualsIgnoreCase(names[i], name)) return static_cast<Value>(i);
  }
  return std::nullopt;
}

}  // namespace

Status StatusOf(Phase phase) { return FactsOf(phase).status; }

std::string_view NameOf(Phase phase) { return kPhaseNames.at(static_cast<std::size_t>(phase)); }
std::string_view NameOf(Status status) { return kStatusNames.at(static_cast<std::size_t>(status)); }
std::string_view NameOf(Cause cause) { return kCauseNames.at(static_cast<std::size_t>(cause)); }
std::string_view NameOf(ObserveVerdict verdict) {
  return kVerdictNames.at(static_cast<std::size_t>(verdict));
}

std::optional<Phase> PhaseFromName(std::string_view name) {
  return FromName<Phase>(kPhaseNames, name);
}
std::optional<Status> StatusFromName(std::string_view name) {
  return FromName<Status>(kStatusNames, name);
}

bool IsLegal(Phase from, Phase to) { return (FactsOf(from).to & Bit(to)) != 0; }
bool IsFinal(Phase phase) { return FactsOf(phase).is_final; }
bool IsOpen(Phase phase) { return phase == Phase::kDispatching || phase == Phase::kUncertain; }

bool IsClaim(Phase phase) { return phase == Phase::kClaimed || phase == Phase::kApproved; }

bool MayHaveEffect(Phase phase) {
  return IsOpen(phase) || phase == Phase::kSucceeded || phase == Phase::kAnswerLost;
}

std::size_t BytesOf(const StateKept& state) {
  std::size_t bytes = state.request.target.size();
  for (const Snapshot* one : {&state.before, &state.ours}) {
    bytes += one->version.size();
    for (const auto& [place, value] : one->places) bytes += place.size() + value.size();
  }
  return bytes;
}

bool CanBeKept(const RenderedRequest& request) {
  std::size_t head_bytes = request.method.size() + request.target.size();
  for (const auto& [name, value] : request.headers) head_bytes += name.size() + value.size();
  return request.body.size() <= limits::kStoredRequestBodyBytesMax &&
         head_bytes <= limits::kRenderedRequestBytesMax;
}

}  // namespace recourse
