// The backends of a simulated run: they execute, refuse, fail, answer late or never, and know the
// truth about every effect. Requests that were sent live on when the proxy dies.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "filters/upstream.h"
#include "tests/sim/dice.h"
#include "tests/support/scripted_upstream.h"
#include "tests/support/test_loop.h"

namespace recourse {

// One thing that a forward call made.
struct SimEffect {
  std::string id, kind;  // kind: "orders"
  MonoTime at{};
  MonoTime sent{};  // when the request that made it was sent
  int undone = 0;   // how often
  MonoTime undone_at{};
  std::uint64_t undone_stamp = 0;  // order of first undos over everything
  bool is_by_hand = false;         // a human undid it first, and says so once the process lives
};

// What a simulated process talks to.
class SimPeer {
 public:
  virtual ~SimPeer() = default;
  // What becomes of a write that is sent now.
  virtual Step Receive(const HttpRequest& request) = 0;
  virtual Step Probe(const HttpRequest& request) = 0;
  virtual bool RefusesConnection() = 0;
};

class SimBackend final : public SimPeer {
 public:
  // A request that is on its way arrives this late at most.
  static constexpr unsigned kLatestMs = 4'000;

  SimBackend(TestLoop& loop, Dice& dice, unsigned fault_percent)
      : loop_(loop), dice_(dice), fault_percent_(fault_percent) {}

  Step Receive(const HttpRequest& request) override;
  Step Probe(const HttpRequest& request) override;
  bool RefusesConnection() override { return dice_.Percent(fault_percent_ / 8); }
  void StopFailing() { fault_percent_ = 0; }

  // A human undoes it by hand.
  void UndoByHand(const std::string& ref);
  // What was made for a ref; empty: nothing.
  const std::vector<SimEffect>& EffectsOf(const std::string& ref) { return effects_[ref]; }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  struct Call {
    std::string kind, ref, key;
    std::string undoes;  // id of the effect; empty: it is a forward call
    MonoTime sent{};
  };
  Call Read(const HttpRequest& request);
  Step Execute(const Call& call);
  Step Make(const Call& call);
  Step Undo(const Call& call);
  Step Refuse(const Call& call, int status);
  Step Fail(const Call& call);
  Task<void> ExecuteLater(Call call, Millis delay);
  SimEffect* Find(const std::string& id);

  TestLoop& loop_;
  Dice& dice_;
  unsigned fault_percent_;
  std::map<std::string, std::vector<SimEffect>> effects_;  // by ref
  std::map<std::string, std::string> ref_of_;              // by id
  // What was decided under a key stands: the answer's body, or empty for a refusal.
  std::map<std::string, std::string> decided_;
  std::uint64_t stamps_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace recourse
