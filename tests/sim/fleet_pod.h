// One pod of a simulated fleet: the real lease, guard, beat, watch and keeper, over a lane whose
// network loses, delays and repeats.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "filters/ledger/lease/send_guard.h"
#include "filters/ledger/lease/stream_keeper.h"
#include "tests/sim/fleet_world.h"
#include "tests/support/seeded_random.h"

namespace recourse::fleet_sim {

struct Waiting {
  BatchPlan plan;
  std::function<void(bool won, int attempt)> told;
};
struct InFlight {
  Batch batch;
  std::vector<Waiting> waiting;
  BootTime first_sent{};
};

class Pod {
 public:
  Pod(World& world, int number);
  ~Pod();
  void Start();
  void Kill();
  bool is_alive() const { return life_ != nullptr && life_->is_alive; }
  std::uint64_t stream() const { return stream_; }
  std::shared_ptr<Life> life() const { return life_; }

 private:
  class Kernel;
  class Table;
  struct PodClock;
  void OpenStream();
  void Submit(BatchPlan plan, std::function<void(bool, int)> told);
  void Lane();
  void Transmit();
  void Answered(Database::Answer answer, const Batch& batch);
  void Fenced();
  bool HasOpen() const;
  int NextKey();
  void Agent();
  void Dispatch(int key, int attempt, std::shared_ptr<SendGuard> guard);
  void Sent(int key, int attempt);
  void Record(int key, int attempt, OpPhase to, bool is_own_dispatch);
  void Settle();
  void Keep(int epoch);
  void Beat();

  World& world_;
  const int number_;
  std::shared_ptr<Life> life_;
  std::uint64_t stream_ = 0, head_ = 0;
  std::shared_ptr<Kernel> kernel_;
  std::shared_ptr<SendGuard> guard_;
  std::unique_ptr<PodClock> clock_;
  std::unique_ptr<Table> table_;
  std::unique_ptr<StreamKeeper> keeper_;
  SeededRandom random_;
  std::deque<Waiting> queue_;
  std::optional<InFlight> in_flight_;
  BootTime last_sent_{};
  bool said_open_ = false, has_to_beat_ = false;
  std::map<int, int> running_;  // attempt by key; 0: not begun yet
  std::set<int> settling_;      // keys
  int epoch_ = 0;               // of its stream
  int tries_ = 0, failures_ = 0;
};

}  // namespace recourse::fleet_sim
