// What the state of a thing says of the write that was to bring it about, where `before` has read
// how it stood until then. Pure.
#pragma once

#include <cstdint>

#include "filters/ledger/model/event.h"
#include "filters/settle/probe.h"
#include "filters/upstream.h"
#include "policy/model/policy.h"

namespace recourse {

// Whether what a write asks for is there.
enum class Stands : std::uint8_t { kUnclear, kThere, kNotThere };

struct StateSeen {
  Stands before = Stands::kUnclear;  // when it was about to be sent
  Stands now = Stands::kUnclear;
  bool is_untouched = false;    // it is in the very version that was read before: nobody wrote
  bool is_said_absent = false;  // a condition of `absent` holds
};

// Present: it is there by now, and was not. Others may have brought it about all the same, so no
// undo rests on that. Absent: it is not there, and has not been meanwhile, by the version or by the
// word of the policy; what is not there any more may have been. All else is kNothing.
ProbeVerdict VerdictOf(const StateSeen& seen);

// What the answer to the settle request of `tool`, which asks what its `before` asks, shows.
StateSeen SeenOf(const Tool& tool, const Event& uncertain, const Result<Answer>& result);

ProbeReading JudgeState(const Tool& tool, const Event& uncertain, const Result<Answer>& result);

}  // namespace recourse
