// What the ledger's events say to callers. Pure.
#pragma once

#include <string_view>

#include "filters/answers.h"
#include "filters/filter.h"
#include "filters/idempotency/outcome.h"
#include "filters/ledger/ledger.h"

namespace recourse {

// The word of Recourse-Outcome (design 9).
std::string_view OutcomeWord(const Event& event);

// For problems about an operation: its event, flow and key.
ProblemFacts FactsOfEvent(const Event& event);

// What a repeat is told about an operation in this state: the kept answer as a replay, else the
// problem that says what is known. An answer that left the outcome unknown is not replayed.
WriteAnswer AnswerToRepeat(const Event& event);

// What the first caller is told: the backend's answer with our fields, or the verdict's problem.
Outcome AnswerToFirst(const Event& event, const Verdict& verdict, Answer answer);

// True when a caller that got the backend's answer to this event, first or replayed, knows all that
// it will be told, so that the same intent under another trace is a new call.
bool IsFinalWord(const Event& event);

}  // namespace recourse
