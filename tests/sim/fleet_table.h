// The streams of a simulated fleet as one of its processes reads them.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "filters/ledger/lease/stream_keeper.h"
#include "tests/sim/fleet_world.h"

namespace recourse::fleet_sim {

class PodTable final : public StreamTable {
 public:
  struct Parts {
    World& world;
    std::shared_ptr<Life> life;
    std::uint64_t stream;  // its own
    Digest birth;
    std::function<StreamEnd()> acknowledged;
    std::function<void()> behind;
    std::function<bool()> has_said_taking;
    std::int64_t& in_call;  // how long the newest question takes
  };
  explicit PodTable(Parts parts) : parts_(std::move(parts)), db_(parts_.world.database) {}

  bool HasSaidTaking() const override {
    return parts_.has_said_taking() || parts_.world.faults.without == Mutant::kTakerSaysNothing;
  }
  Result<Listed> List() override;
  Result<std::vector<Watch::Beat>> Beats(std::span<const std::uint64_t> streams) override;
  Result<void> TellWentBack(Watch::Silent seen) override;
  Result<bool> Declare(Watch::Silent silent) override;
  Result<bool> Adopt(Abandoned abandoned) override;
  Result<bool> TakeOverSome(std::uint64_t stream) override;

 private:
  bool Reaches() const { return db_.is_up && parts_.life->cut_until <= parts_.world.now; }
  StreamRow* Find(std::uint64_t stream);
  void Tell(std::string_view what, std::uint64_t stream) {
    parts_.world.Tell("pod {} {}{}", parts_.life->pod, what, stream);
  }

  const Parts parts_;
  Database& db_;
};

}  // namespace recourse::fleet_sim
