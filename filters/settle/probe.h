// What a probe's answer proves, and when to ask again. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/upstream.h"
#include "policy/model/policy.h"

namespace recourse {

enum class ProbeVerdict : std::uint8_t {
  kPresent,  // the effect exists
  kAbsent,   // it does not exist now; a late arrival may still make it
  kNothing,  // the answer tells nothing
};
std::string_view NameOf(ProbeVerdict verdict);  // "present"

struct ProbeReading {
  ProbeVerdict verdict = ProbeVerdict::kNothing;
  std::string external_ref;  // kPresent, when the value is usable as one
  // kPresent: where the effect was found, and the pointer to its name in that.
  std::optional<Json> found{};
  std::string at{};
  bool is_state = false;  // kPresent: told by a state, which others may have brought about
};
// What was found of the effect as the answer to the tool's write has it: the object whose name is
// the external_ref of both. nullopt: they have none in common.
std::optional<Json> AsAnswer(const ProbeReading& reading, const Tool& tool);

// Present: a whole 2xx answer has a value at `happened`. Absent: it states so (absence.h). All else
// is kNothing: another status, an answer cut or not JSON, a body of another shape, and values that
// may mean either (null, false, 0, "", {}).
ProbeReading JudgeProbe(const SettleRule& rule, const Result<Answer>& result);

// What one operation's probes have shown so far.
struct ProbeHistory {
  MonoTime since{};        // when the outcome became unknown, or later
  int answers_absent = 0;  // probes sent after absent_after that read kAbsent, in a row
  int probes = 0;
};

// True when a probe sent at `sent_at` may count as proof of absence. A backend that has taken the
// call on (202) may still act on it, however long that takes.
bool AbsenceCounts(const SettleRule& rule, const ProbeHistory& history, MonoTime sent_at,
                   int http_status);

// Pause before the next probe: doubles from kProbeBackoffFirst to kProbeBackoffMax, drawn from the
// upper half of the interval. While absence can be proven soon, not later than that.
Millis ProbePause(const SettleRule& rule, const ProbeHistory& history, MonoTime now,
                  std::uint32_t jitter);

// True when the backend's own answer stays the answer of every repeat once the effect is found: it
// has been told as a success already.
bool KeepsAnswer(const Event& uncertain);

// How an effect was found that nobody was told of.
struct Finding {
  std::string external_ref;  // empty: its name is not known
  Cause cause = Cause::kProbePresent;
  std::string detail = "the settle request found the effect";  // for people
  std::optional<Json> state{};                                 // by which its undo is chosen
  bool may_be_others = false;                                  // then nothing is undone by itself
};

Finding FindingOf(const ProbeReading& reading, const Tool& tool);

// The moves that a verdict is made durable with. `captures` are those of the call's path, decoded:
// with the effect's name they are all that is left to make its undo request of.
Transition PresentTransition(const Event& uncertain, const Finding& found, const Tool& tool,
                             const std::vector<std::pair<std::string, std::string>>& captures = {},
                             const KeyRule& key = {});
Transition AbsentTransition(const Event& uncertain);

// The undo request of a success that was found out later, for the transition to it: the one that
// was rendered with the call, with the reference that it lacked, else one made of `values`, chosen
// by `state` where there is no answer. What
// cannot be made is said at the end of the detail.
void AddLateUndo(const Event& uncertain, const Tool& tool, CallValues values,
                 Transition& transition, const Json* state = nullptr);

}  // namespace recourse
