// What an answer that came late, or by way of a task, makes of an operation of unknown outcome.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "filters/codec.h"
#include "filters/ledger/ledger.h"
#include "policy/model/policy.h"

namespace recourse {

// The move that `final`, the answer to the call in the protocol of `codec`, proves; nullopt: it
// leaves the outcome unknown. The answer is kept beside the task, if the client was given one.
// `captures` as in PresentTransition.
std::optional<Transition> LateTransition(
    const Codec& codec, const Event& uncertain, const Tool& tool, const FinalMessage& final,
    const std::vector<std::pair<std::string, std::string>>& captures);

// The same of a task that has ended; nullopt also while nobody has told its result.
std::optional<Transition> EndedTransition(
    const Codec& codec, const Event& uncertain, const Tool& tool, const TaskReport& report,
    const std::vector<std::pair<std::string, std::string>>& captures);

// Pause before a task is asked about again: doubles as that of probes does, but never below what
// its server asks for; a quarter of the task's life at most.
Millis TaskPause(const TaskPace& pace, int asked, std::uint32_t jitter);

// What makes an operation that was taken on a success, if that answer holds all of the tool's
// `until`; nullopt: it does not. Repeats get the answer that its first caller had.
std::optional<Transition> DoneTransition(
    const Event& taken_on, const Tool& tool, const Answer& answer,
    const std::vector<std::pair<std::string, std::string>>& captures, const KeyRule& key);

}  // namespace recourse
