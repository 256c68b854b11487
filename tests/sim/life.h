// One life of the process in a simulated run: the real chain, settler and flow runner over the
// ledger's log, until it dies between two steps of its work. What it had in memory is lost; what it
// sent, and the log, live on.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "filters/approval/approval_worker.h"
#include "filters/saga/flow_worker.h"
#include "filters/settle/settle_worker.h"
#include "tests/sim/backend.h"
#include "tests/sim/dice.h"
#include "tests/sim/disk.h"
#include "tests/support/seeded_random.h"
#include "tests/support/test_loop.h"
#include "tests/support/world.h"

namespace recourse {

// Every verb of the ledger, and every request, is a point where the process may die, before it or
// after.
class Pulse {
 public:
  Pulse(TestLoop& loop, Dice& dice) : loop_(loop), dice_(dice) {}
  // Dies after so many points.
  void Light(int fuse) { fuse_ = fuse; }
  bool Beat() {
    if (fuse_ > 0 && --fuse_ == 0) is_dead_ = true;
    return !is_dead_;
  }
  void Kill() { is_dead_ = true; }
  bool is_dead() const { return is_dead_; }
  // An answer of the ledger's thread takes its time, now and then.
  Task<void> Pause() {
    if (dice_.Percent(20)) co_await loop_.timer().SleepUntil(loop_.now() + dice_.Time(15));
  }

 private:
  TestLoop& loop_;
  Dice& dice_;
  int fuse_ = 0;
  bool is_dead_ = false;
};

class MortalLedger;

class Life {
 public:
  // All of them outlive it.
  Life(TestLoop& loop, Dice& dice, SimPeer& backend, SimDisk& disk,
       std::shared_ptr<const Policy> policy);
  // All its work has ended.
  ~Life();
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  // Starts a call. `told` stays undone when the process dies first. Its client has not had the
  // answer if that is not delivered.
  void Serve(const CallSpec& spec, std::shared_ptr<Told> told, bool is_delivered = true);
  // What an operator asks.
  void Act(const FlowAction& action);
  // What an approver says.
  Task<void> Decide(ApprovalOrder order);
  // Another policy comes into force.
  void Obey(std::shared_ptr<const Policy> policy);
  bool is_dead() const { return pulse_.is_dead(); }
  void Kill() { pulse_.Kill(); }
  void Light(int fuse) { pulse_.Light(fuse); }
  // Once it is dead: lets go of everything in memory.
  void Bury();
  Ledger& ledger();

 private:
  class Wire;
  class Line;
  Task<void> Answer(std::unique_ptr<RequestContext> context, std::shared_ptr<Told> told,
                    bool is_delivered);

  TestLoop& loop_;
  Pulse pulse_;
  std::shared_ptr<const Policy> policy_;
  SeededRandom random_;
  const std::unique_ptr<MortalLedger> ledger_;
  const std::unique_ptr<Upstream> wire_;
  SettleWorker settle_worker_;
  FlowWorker flows_;
  ApprovalWorker approvals_;
  FilterChain chain_;

  static constexpr std::size_t kIdempotency = 3;  // its place in the chain
};

}  // namespace recourse
