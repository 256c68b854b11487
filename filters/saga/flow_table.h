// The flows that are looked after: which of them is looked at when, and what is known of each
// beside the ledger. Does no I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "policy/model/policy.h"
#include "proxy/base/clock.h"
#include "proxy/base/due_queue.h"

namespace recourse {

// A step of unknown outcome whose request is sent again to find out.
struct StepResend {
  MonoTime next;
  std::optional<std::string> stuck;  // why it is not sent again
};

// A step that its probe called absent, and that is looked at once more.
struct LateStep {
  MonoTime next{};     // when
  MonoTime give_up{};  // an answer that tells nothing is asked for until then
  bool is_over = false;
};

// Steps, each with its key: see IsMeant.
using StepKeys = std::map<std::uint64_t, Digest>;
inline bool HasStep(const StepKeys& steps, const Event& step) {
  const auto at = steps.find(step.operation);
  return at != steps.end() && at->second == step.key;
}

struct FlowEntry {
  std::string id, caller;
  std::int64_t began_ms = 0;
  bool is_worked_on = false;                    // broken: what is due of it keeps its own pace
  std::uint64_t work = 0;                       // who works on it; 0: nobody
  StepKeys by_human;                            // stuck steps that a human lets be tried once more
  MonoTime settle_until{};                      // set while it is breaking
  std::optional<MonoTime> overdue_since{};      // open, and its deadline has passed
  std::vector<std::uint64_t> passed;            // stuck steps that the policy passes over
  bool is_recalled = false;                     // what its undos have left is known
  std::optional<MonoTime> slot{};               // when its next undo request may go
  std::optional<MonoTime> unread_since{};       // the event that was looked for last cannot be read
  std::map<std::uint64_t, StepResend> resends;  // by step
  std::map<std::uint64_t, LateStep> late;       // by step
};

class FlowTable {
 public:
  using PolicyOf = std::function<std::shared_ptr<const Policy>(const std::string& version)>;
  FlowTable(const Clock& clock, PolicyOf policy) : clock_(clock), policy_(std::move(policy)) {}

  // Takes a flow in, with the time at which it has to be looked at. At least `grace` is left to an
  // open one.
  void Track(const FlowState& state, Millis grace = Millis(0));
  void Forget(std::uint64_t number);
  // Not so where another flow has its number since the ledger went back to an older state.
  bool IsOf(const FlowState& state);
  // nullptr: an operator has ended it meanwhile.
  FlowEntry* Find(std::uint64_t number);

  void SetDue(std::uint64_t number, MonoTime at) { due_.Set(number, at); }
  MonoTime DueOf(std::uint64_t number) const { return due_.TimeOf(number); }
  // When the first that nobody works on is due; nullopt: there is none.
  std::optional<MonoTime> next() const { return due_.next(); }

  // Work on a flow, from the moment that it is taken. Forgotten and tracked anew, it is another's.
  struct Work {
    std::uint64_t number;
    std::uint64_t id;
  };
  // On the flow that has been due for longest; nullopt: none is.
  std::optional<Work> Take(MonoTime now);
  bool IsMine(Work work);
  void End(Work work);
  bool IsTaken(std::uint64_t number) const { return due_.IsTaken(number); }

 private:
  const Clock& clock_;
  const PolicyOf policy_;
  std::map<std::uint64_t, FlowEntry> entries_;
  DueQueue<std::uint64_t> due_;  // its keys
  std::uint64_t works_ = 0;
};

}  // namespace recourse
