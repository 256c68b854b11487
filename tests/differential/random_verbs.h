// Verbs of chance, of few keys, traces, callers and resources, so that they meet.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "filters/ledger/ledger.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::differential {

class RandomVerbs {
 public:
  explicit RandomVerbs(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t Below(std::uint64_t limit) { return engine_() % limit; }
  bool Percent(std::uint64_t percent) { return Below(100) < percent; }

  // Its client and its approved operation are the caller's to say.
  NewOperation Begin();
  Transition Record();
  ApprovalOrder Decide();
  FlowMove Move();
  // What was replied, so that later verbs are about it.
  void Note(const Event& event);
  void Note(const FlowState& flow);
  const Event& Known();
  const Event& KnownIn(Phase phase);  // where there is one
  bool knows_any() const { return !events_.empty(); }

 private:
  std::string Pick(const char* what, std::uint64_t of) { return what + std::to_string(Below(of)); }
  RenderedRequest Request();
  Snapshot State();
  void TakeStanding(Event& event);
  void TakeNotes(Standing& stands);
  void TakeFlow(Event& event);
  void TakeRecognition(NewOperation& call);
  void TakeApproval(NewOperation& call);
  void TakeUndo(NewOperation& call);

  std::mt19937_64 engine_;
  std::vector<Event> events_;     // newest of each operation
  std::vector<FlowState> flows_;  // likewise
};

}  // namespace recourse::differential
