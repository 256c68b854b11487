// What operators tell the worker of flows to do, from any thread.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/outcome_resolver.h"
#include "filters/saga/flow_action.h"
#include "filters/saga/flow_tools.h"
#include "proxy/base/task.h"
#include "proxy/base/work_loop.h"

namespace recourse {

// What blocks is called on an admin thread, never on an I/O thread. All of it fails with a line for
// people.
class FlowOperator {
 public:
  // What the worker does with a flow that was moved. On its thread.
  struct Worker {
    // Works on it as it is now; a human lets the steps of `stuck` be tried once more.
    std::function<void(const FlowState& moved, StepKeys stuck)> take_up;
    // Looks at the flow of that name, which may have moved.
    std::function<void(std::string caller, std::string flow)> follow;
  };
  FlowOperator(const FlowTools& tools, WorkLoop& loop, Worker worker)
      : tools_(tools), loop_(loop), worker_(std::move(worker)) {}

  // Gives the flow as it is then, before it is worked on further. Blocking.
  std::expected<FlowState, std::string> Act(const FlowAction& action);
  // The same on the worker's thread, without blocking it.
  Task<std::expected<FlowState, std::string>> ActNow(FlowAction action);
  // Settles an operation by a human's word, whatever its flow is at; that goes on as the outcome
  // says, also if it was parked over such a step. Gives the operation's last event. Blocking.
  std::expected<Event, std::string> SettleBy(const HumanWord& word);
  // The operation's last event, with its answer. Blocking.
  std::expected<Event, std::string> LastOf(std::uint64_t operation);
  // Flows that are not over, with number > after, ascending, at most `limit`. Blocking.
  std::expected<std::vector<FlowState>, std::string> List(std::uint64_t after, std::size_t limit);
  // Lets go whoever waits in one of these, now and later: the worker's thread ends. Thread-safe.
  void Close() { loop_.Close(); }

 private:
  Task<std::expected<Event, std::string>> SettleByNow(HumanWord word);
  Task<std::expected<std::vector<FlowState>, std::string>> ListNow(std::uint64_t after,
                                                                   std::size_t limit);
  // What the action means to its step; true: the flow has moved with it.
  Task<std::expected<bool, std::string>> RecordStep(FlowAction action);
  Task<std::expected<Event, std::string>> ReadNow(std::uint64_t operation);
  // Those of the stuck steps that can be read.
  Task<StepKeys> KeysOfStuck(FlowState state);

  const FlowTools tools_;
  WorkLoop& loop_;
  const Worker worker_;
};

}  // namespace recourse
