// Virtual time of a simulated fleet. What belongs to a pod waits while it is paused, but for what
// its kernel does.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/dice.h"
#include "tests/sim/fleet_database.h"

namespace recourse::fleet_sim {

// One process, from its start to its end.
struct Life {
  int pod = 0;
  bool is_alive = true;
  std::int64_t paused_until = 0;
  std::int64_t cut_until = 0;          // off the database
  std::int64_t backend_cut_until = 0;  // off what it sends to
  double rate = 1.0;                   // of its clocks
};

struct Faults {
  // Percent.
  unsigned pauses = 0, crashes = 0, outages = 0, lost_answers = 0, cuts = 0, backend_cuts = 0;
  unsigned slow_commits = 0, failovers = 0;  // to a standby that is behind
  Mutant without = Mutant::kNone;
};

// Commits that were acknowledged, and are gone.
struct Loss {
  std::set<int> keys;
  std::vector<std::shared_ptr<Life>> witnesses;  // whose last row was among them
  bool is_noticed = false;
};

class World {
 public:
  World(std::uint64_t seed, Faults with, bool tells)
      : dice(seed), faults(with), is_told(tells), database(with.without) {}

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
  bool LosesAnswer() { return now < faults_end && dice.Percent(faults.lost_answers); }
  void Pause(Life& life, std::int64_t ms) {
    life.paused_until = std::max(life.paused_until, now + ms);
    Tell("pod {} paused for {}", life.pod, ms);
  }
  template <class... Parts>
  void Tell(fmt::format_string<Parts...> what, Parts&&... parts) {
    if (!is_told) return;
    trace.push_back(fmt::format("{} ", now) + fmt::format(what, std::forward<Parts>(parts)...));
  }
  void Effect(int key, int attempt) {
    const auto is_of_key = [key](const Loss& loss) { return loss.keys.contains(key); };
    // What is not remembered is done again by a repeat, until somebody has noticed.
    const auto lost = std::ranges::count_if(losses, is_of_key);
    if (++effects[key] > 1 + lost) {
      violations.push_back("operation " + std::to_string(key) + " had two effects");
    }
    Tell("EFFECT of {} by attempt {}", key, attempt);
  }
  // Somebody's last row is not there; `stream` is its own.
  void NoticeLoss(std::uint64_t stream) {
    Tell("stream {} shows that the database went back", stream);
    database.NoteRestored(stream);
    for (Loss& loss : losses) loss.is_noticed = true;
    const auto accepting = ++notices_;
    After(3'000 + dice.Below(7'000), nullptr, [this, accepting] {
      if (accepting != notices_) return;
      database.Accept();
      Tell("the restore is accepted");
    });
  }

  std::int64_t now = 1'000'000;
  Dice dice;
  const Faults faults;
  const bool is_told;  // what happens, in `trace`
  Database database;
  std::map<int, int> effects;  // by key
  std::vector<Loss> losses;
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
  int notices_ = 0;
};

}  // namespace recourse::fleet_sim
