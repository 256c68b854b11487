// A call that is sent, or waits for a human before: the attempt that it becomes. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "filters/ledger/rules/begin_decision.h"
#include "filters/ledger/rules/begin_find.h"
#include "filters/ledger/rules/begin_plan.h"

namespace recourse {

inline bool IsObserved(const NewOperation& call) {
  return call.event.verdict != ObserveVerdict::kNone;
}

inline BeginPlan PlanOf(Begun::Kind kind) {
  BeginPlan planned;
  planned.begun.kind = kind;
  return planned;
}

// What observe mode writes down about the call.
struct Prediction {
  ObserveVerdict verdict = ObserveVerdict::kNone;
  std::uint64_t related = 0;
  std::string detail{};  // empty: as it is
};
Prediction PredictionOf(const NewOperation& call, const BeginDecision& decision,
                        const FoundOperation* found);
void Note(Prediction predicted, Event& event);

// Fails with what stands in the way of one more attempt.
Judged<void> Admit(const NewOperation& call, bool is_new, Known& known);

// Of the operation that was found, or of a new one.
Judged<BeginPlan> PlanAttempt(JudgedCall& call, const BeginDecision& decision,
                              const FoundOperation* found, Prediction predicted, Known& known);

}  // namespace recourse
