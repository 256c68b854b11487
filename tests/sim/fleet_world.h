// Virtual time of a simulated fleet. What belongs to a pod waits while it is paused, but for what
// its kernel does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/dice.h"
#include "tests/sim/fleet_database.h"

namespace recourse::fleet_sim {

// One process, from its start to its end.
struct Life {
  int pod = 0;
  bool is_alive = true;
  std::int64_t paused_until = 0;
  std::int64_t cut_until = 0;  // off the database
  double rate = 1.0;           // of its clocks
};

struct Faults {
  unsigned pauses = 0, crashes = 0, outages = 0, lost_answers = 0, cuts = 0;  // percent
  bool has_watchdog = true;
};

class World {
 public:
  explicit World(std::uint64_t seed, Faults with) : dice(seed), faults(with) {}

  void After(std::int64_t ms, std::shared_ptr<Life> life, std::function<void()> job) {
    due_.emplace(now + ms, Due{std::move(life), std::move(job)});
  }
  void RunUntil(std::int64_t end) {
    while (!due_.empty() && due_.begin()->first <= end) {
      const auto first = due_.begin();
      now = first->first;
      Due next = std::move(first->second);
      due_.erase(first);
      if (next.life != nullptr && !next.life->is_alive) continue;
      if (next.life != nullptr && next.life->paused_until > now) {
        const std::int64_t until = next.life->paused_until;
        due_.emplace(until, std::move(next));
        continue;
      }
      next.job();
    }
    now = end;
  }
  void Pause(Life& life, std::int64_t ms) {
    life.paused_until = std::max(life.paused_until, now + ms);
    Tell("pod " + std::to_string(life.pod) + " paused for " + std::to_string(ms));
  }
  void Tell(std::string what) { trace.push_back(std::to_string(now) + " " + std::move(what)); }
  void Effect(int key, int attempt) {
    if (++effects[key] > 1) {
      violations.push_back("operation " + std::to_string(key) + " had two effects");
    }
    Tell("EFFECT of " + std::to_string(key) + " by attempt " + std::to_string(attempt));
  }

  std::int64_t now = 1'000'000;
  Dice dice;
  const Faults faults;
  Database database;
  std::map<int, int> effects;  // by key
  std::vector<std::string> trace, violations;
  std::int64_t faults_end = 0;     // none after that
  int refused = 0;                 // by a lease
  int ended = 0;                   // by a watchdog
  std::vector<std::int64_t> took;  // from the end of a process to the end of its take-over

 private:
  struct Due {
    std::shared_ptr<Life> life;
    std::function<void()> job;
  };
  std::multimap<std::int64_t, Due> due_;
};

}  // namespace recourse::fleet_sim
