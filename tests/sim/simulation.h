// A simulated run: agents, an operator, backends that fail, and a process that dies and starts
// again, all in virtual time and all from one seed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/backend.h"
#include "tests/sim/life.h"

namespace recourse {

// What an agent was told about one write.
struct SimTold {
  std::string ref, trace;
  Told told;
};

// Everything that a checker looks at once a run is over.
struct SimRun {
  std::shared_ptr<const Policy> policy;
  std::vector<SimTold> told;
  std::vector<Event> events;
  std::vector<FlowState> moves;            // every flow row, in order
  std::vector<FlowState> flows;            // as they are at the end
  std::map<std::uint64_t, int> retries;    // a human's, by flow
  int words = 0;                           // a human's, on any flow
  std::set<std::uint64_t> reopened;        // finished flows that a human had undone
  std::set<std::string> closed, canceled;  // traces whose agents were told so
  int lives = 0;
  std::vector<std::pair<std::int64_t, Digest>> in_force;  // policies, by the wall clock
  MonoTime begin{};                                       // of the run, by both clocks
  std::int64_t begin_ms = 0;
  unsigned fault_percent = 0;
  bool goes_on = false;  // continue_on_stuck
  bool is_quiet = false;
  bool lets_rows_go = false;  // rows that went, and what was carried instead, are among the events
  int checkpoints = 0, with_older_claims = 0;  // of the index, see SimDisk
  int carried = 0;                             // rows that were written anew to stay
  std::vector<std::string> problems;
};

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed);
  ~Simulation();
  // Runs it to its end.
  SimRun Run();
  SimBackend& backend() { return backend_; }

 private:
  struct Agent {
    std::string trace;
    bool is_memo = false;
    bool is_fenced = false;  // it was told that its flow takes no more
    int running = 0;
  };
  void Live();
  void Bury();
  void Step(Millis time);
  Task<void> Speak(Agent& agent, unsigned index);
  Task<void> Write(Agent& agent, std::string kind, std::string ref);
  Task<void> Crowd();
  Task<bool> Attempt(Agent& agent, const CallSpec& call, const std::string& ref, bool has_effect);
  Task<void> End(Agent& agent);
  Task<void> Sleep(Millis time);
  Task<bool> Alive();
  void Operate();
  Task<void> Judge();
  void ChangePolicy();
  void Resolve(const FlowState& state);
  void Act(FlowAction::Kind kind, const FlowState& state, std::uint64_t operation = 0);
  std::string RefOf(std::uint64_t operation);
  bool IsUndoneInTruth(std::uint64_t operation);
  bool IsQuiet();
  void Collect(SimRun& run);

  Dice dice_;
  Dice scale_dice_;  // of its own: a run without a crowd is what it is
  TestLoop loop_;
  const bool has_faults_;
  SimBackend backend_;
  SimDisk disk_;
  std::shared_ptr<const Policy> policy_, other_policy_;
  std::unique_ptr<Life> life_;
  std::vector<std::unique_ptr<Life>> graves_;
  std::vector<std::unique_ptr<Agent>> agents_;
  Agent crowd_;
  int speaking_ = 0;
  bool is_ending_ = false;
  SimRun run_;
};

// What the run broke, one line each; empty: nothing.
std::vector<std::string> Check(const SimRun& run, SimBackend& backend);
// The run for a reader.
std::string Tell(const SimRun& run);

}  // namespace recourse
