// Looks after the flows of one process: their deadlines, and the undoing of those that broke.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "filters/flow_monitor.h"
#include "filters/ledger/ledger.h"
#include "filters/saga/flow_operator.h"
#include "filters/saga/flow_parts.h"
#include "filters/saga/flow_tools.h"
#include "filters/saga/step_settler.h"
#include "filters/saga/step_undoer.h"
#include "proxy/base/clock.h"
#include "proxy/base/work_loop.h"

namespace recourse {

// Everything happens on the thread of Parts::executor; Watch, Order, Stop and what operators do may
// be called on any thread. Outlives every job that it posted.
class FlowWorker final : public FlowMonitor {
 public:
  using Parts = FlowParts;
  explicit FlowWorker(Parts parts);
  FlowWorker(const FlowWorker&) = delete;
  FlowWorker& operator=(const FlowWorker&) = delete;

  // Loads the flows that are not over, then works until Stop(). Returns when the last undo request
  // has ended. Call once, on the worker's thread.
  Task<void> Run();
  // There are more than Run() has loaded: those of another process that ended. Thread-safe; once
  // Run() runs.
  void LoadMore();
  // Ends Run() within kFlowTick plus a backend's timeout.
  void Stop() { loop_.Stop(); }

  void Watch(const Event& step) override;
  Task<Result<FlowState>> Order(std::string caller, std::string flow, FlowMove move,
                                Executor& executor) override;
  FlowOperator& operators() { return operators_; }

 private:
  Task<void> Load();
  // The flow as its policy breaks it over steps that became unknown with the last process.
  Task<FlowState> BrokenByCrash(FlowState state);
  // Looks at the flow of that name, which may have moved.
  void Follow(std::string caller, std::string flow);
  void TakeUp(const FlowState& moved, StepKeys stuck);
  void Tick();
  void TickSoon();
  std::optional<MonoTime> NextTick() const;
  Task<void> Work(FlowTable::Work work);
  bool AwaitsPolicy(const FlowState& state) const;
  // One thing at a time; nullopt: the flow is over, parked, or has to wait.
  Task<std::optional<FlowState>> Advance(FlowState state);
  Task<std::optional<FlowState>> AtDeadline(FlowState state);
  // For how long this process has known that its deadline has passed.
  Millis Overdue(std::uint64_t number);

  const Parts parts_;
  WorkLoop loop_;
  FlowTable table_;
  FlowRecords records_;
  BackendShare share_;
  StepSettler settler_;
  StepUndoer undoer_;
  FlowOperator operators_;
  bool is_tick_posted_ = false;
};

}  // namespace recourse
