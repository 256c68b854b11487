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
#include "tests/sim/fleet_table.h"
#include "tests/sim/fleet_world.h"
#include "tests/support/seeded_random.h"

namespace recourse::fleet_sim {

struct Waiting {
  BatchPlan plan;
  std::function<void(const BatchPlan& as_written)> told;
};
struct Call {
  int key = 0, attempt = 0;
  OpName name;
};
// Of a request that was sent, while the kernel has them.
struct Bytes {
  Call call;
  std::shared_ptr<Life> life;
  std::int64_t held_until = 0;
  bool is_dropped = false;
};
struct InFlight {
  Batch batch;
  std::vector<Waiting> waiting;
  BootTime first_sent{};
  bool takes = false;  // somebody over, and says so
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
  // The database does not have its last row, and no more.
  bool HasLost() const;

 private:
  class Kernel;
  struct PodClock;
  void OpenStream();
  bool Reaches() const { return world_.database.is_up && life_->cut_until <= world_.now; }
  bool ReachesBackend() const { return life_->backend_cut_until <= world_.now; }
  void Submit(BatchPlan plan, std::function<void(const BatchPlan&)> told);
  void Lane();
  void Transmit();
  void Arrive(int tried, const Batch& batch, const std::shared_ptr<Life>& life);
  void Answer(int tried, const std::shared_ptr<Life>& life, std::optional<Batch> written);
  void LookForEnd();
  void Written(const Batch& batch);
  void Fenced();
  bool HasOpen() const;
  int NextKey();
  void Agent();
  void Dispatch(Call call, std::shared_ptr<SendGuard> guard);
  void Sent(Call call, Millis left);  // of its lease
  void Deliver(std::shared_ptr<Bytes> bytes);
  void Record(Call call, OpPhase to, bool is_own_dispatch);
  void Settle();
  void Keep(int epoch);
  void Beat();
  void BeatAtOnce();

  World& world_;
  const int number_;
  std::shared_ptr<Life> life_;
  std::uint64_t stream_ = 0;
  StreamEnd end_;  // acknowledged
  Digest birth_{};
  std::shared_ptr<Kernel> kernel_;
  std::shared_ptr<SendGuard> guard_;
  std::unique_ptr<PodClock> clock_;
  std::unique_ptr<PodTable> table_;
  std::unique_ptr<StreamKeeper> keeper_;
  SeededRandom random_;
  std::deque<Waiting> queue_;
  std::optional<InFlight> in_flight_;
  BootTime last_sent_{};
  bool said_open_ = false, said_taking_ = false, has_to_beat_ = false;
  std::map<int, int> running_;  // attempt by key; 0: not begun yet
  std::set<int> settling_;      // keys
  int epoch_ = 0;               // of its stream
  int tries_ = 0, failures_ = 0;
};

}  // namespace recourse::fleet_sim
