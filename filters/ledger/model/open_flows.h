// What the ledger knows of flows that are not over, and which names are fenced for good. Derived
// from the rows: events of steps and undo requests, and flow rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "filters/ledger/model/flow.h"
#include "proxy/base/clock.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

// What one event says about its flow. The texts are valid during the call only.
struct StepUpdate {
  std::uint64_t row = 0;
  std::int64_t wall_ms = 0;
  std::uint64_t operation = 0;
  Phase phase = Phase::kNone;
  std::uint16_t attempt = 0;
  bool has_undo = false;
  std::uint64_t undoes = 0;  // 0: a step; else the operation that this one undoes
  bool has_deadline = false;
  bool is_resend = false;  // of a request whose outcome is unknown: no new step
  std::string_view caller, trace_id, flow, flow_name, policy_version;
};

// nullopt: it is of no flow. As long as the event.
std::optional<StepUpdate> NewsOf(const Event& event);
// What the news makes of the flow; nothing where it is of an earlier one of that name.
void TakeNews(FlowState& state, const StepUpdate& news);
// Tries are counted from the last move to another phase. `before`: the flow before a row that is no
// such move, or nullptr.
void CountTries(const FlowState* before, FlowState& state);

// One thread.
class OpenFlows {
 public:
  OpenFlows() = default;
  // `over` gets each flow that leaves because it is over.
  explicit OpenFlows(std::function<void(FlowState)> over) : over_(std::move(over)) {}

  // Takes an event in the order of the rows. A first step of a name that is free opens a flow.
  // News of a flow that is over changes nothing, also of a step that was on its way when it ended,
  // and where another one has its name by now. Of a flow that has lost first rows of its steps to
  // retention a row of its own tells.
  void Apply(const StepUpdate& news, MonoTime now);
  // Takes a flow row: what it says holds, whatever was known before.
  void Apply(FlowState state, MonoTime now);

  // nullptr: none that is not over.
  const FlowState* Find(std::string_view caller, std::string_view flow) const;
  const FlowState* Find(std::uint64_t number) const;
  // The number of the flow that fences this name; 0: writes of it may begin.
  std::uint64_t FencedBy(std::string_view caller, std::string_view flow) const;
  // Both by the name's FlowKeyOf.
  const FlowState* Find(const Digest& key) const;
  std::uint64_t FencedBy(const Digest& key) const;
  // Not over, or undone; the flow rows of those must stay.
  bool HoldsRow(const FlowState& state) const;
  // Whether the last event of that operation must stay: its flow has a deadline, is broken or is
  // parked. An open flow without a deadline loses the step instead, as it loses its oldest one when
  // there are kFlowStepsMax.
  bool HoldsStep(std::string_view caller, std::string_view flow, std::uint64_t operation);

  // Flows with number > after, ascending, at most `limit`.
  std::vector<FlowState> List(std::uint64_t after, std::size_t limit) const;

  // Commits, without a row, flows without a deadline that had no write since `before` and hold
  // nothing unknown; of them the oldest ones too while there are more than `flows_max`. At most
  // `most`. The events keep telling of them.
  void CloseIdle(MonoTime before, std::size_t flows_max, std::size_t most);
  // No further flow can begin.
  bool is_full(std::size_t flows_max) const { return flows_.size() >= flows_max; }
  // A name that was fenced for good is free again: retention removed the flow's last row.
  void Unfence(const FlowState& state);

  std::size_t size() const { return flows_.size(); }
  std::size_t undone() const { return undone_.size(); }
  // Steps whose effect may have to be undone yet.
  std::size_t undoable() const { return undoable_; }
  // Flows that IsStopped tells of.
  std::size_t stopped() const { return stopped_; }
  // When the flow that waits for longest was parked, of those that are not stopped; 0: none waits.
  std::int64_t ParkedSinceMs() const { return parked_.empty() ? 0 : *parked_.begin(); }
  std::size_t CountOf(FlowPhase phase) const { return counts_[static_cast<std::size_t>(phase)]; }

  // For the checkpoint of the index.
  std::string Encode() const;
  // False: not what Encode wrote.
  bool Decode(std::string_view bytes, MonoTime now);

 private:
  struct Entry {
    FlowState state;
    std::uint64_t touched = 0;  // its place in idle_; 0: none
  };
  using Flows = std::unordered_map<Digest, Entry, DigestHash>;
  // Of a name that no flow here has. Somebody touches it.
  Flows::iterator Insert(const Digest& key, FlowState state);
  void Put(const Digest& key, FlowState state, MonoTime now);
  void Erase(const Digest& key);
  void Count(const FlowState& state, int by);
  void Touch(Entry& entry, const Digest& key, MonoTime now);

  const std::function<void(FlowState)> over_;

  struct Idle {
    Digest key{};
    MonoTime since;
  };
  Flows flows_;
  std::map<std::uint64_t, Digest> by_number_;
  std::unordered_map<Digest, std::uint64_t, DigestHash> undone_;  // numbers of flows
  std::map<std::uint64_t, Idle> idle_;  // open flows without a deadline, by last write
  std::uint64_t ticks_ = 0;
  std::size_t undoable_ = 0;
  std::size_t counts_[kFlowPhaseCount] = {};
  std::size_t stopped_ = 0;
  // Times at which the flows in NEEDS_HUMAN that are not stopped were parked.
  std::multiset<std::int64_t> parked_;
};

// Bytes of a flow in a row and in the checkpoint.
void AppendFlow(std::string& out, const FlowState& state);
bool ReadFlow(class ByteReader& reader, FlowState& state);

}  // namespace recourse
