#include "tests/sim/lease_model.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <string_view>
#include <unordered_map>

namespace recourse::lease_model {
namespace {

// Ticks. Bytes that were sent arrive within kDelay.
constexpr int kLease = 2, kDead = 3, kDelay = 2, kAbsent = 3, kEnd = 9;
constexpr int kBeatsMax = 3, kNever = -1;

enum Op : signed char { kNone, kDispatched, kUnknown, kAbsentOp, kNotSentOp, kDone };
// What A, the owner, is doing. kArmed: its watchdog is, and the clock is to be read.
enum Doing : signed char { kIdle, kAwaiting, kAcked, kArmed, kChecked, kRefused, kOver, kEnded };
enum Message : signed char { kNoMessage, kBegin, kBeat };

// Only bytes, so that states can be compared and hashed as such.
struct State {
  signed char time = 0, time_of_a = 0;
  signed char alive = 1, beat = 0, op = kNone, doing = kIdle, lease_end = 0;
  // One batch is on its way at most: to the database, or its answer from there.
  signed char sent = kNoMessage, sent_at = 0, answer = kNoMessage, answer_at = 0, answer_ok = 0;
  signed char applied = 0;       // the begin was, and its answer may have been lost
  signed char answers_lost = 0;  // 2: and the batch was sent again
  signed char seen = 0, seen_at = 0, scanned = 0, unknown_at = 0, dispatched_at = 0;
  signed char effects_of_a = 0, effects_of_b = 0, in_flight_since = kNever;
  signed char b_sends = 0;    // attempt 2 or 3 of B is begun and not sent
  signed char told_lost = 0;  // A has told its agent that it was not begun
  bool operator==(const State&) const = default;
};

struct Hash {
  std::size_t operator()(const State& state) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&state), sizeof state});
  }
};

// Without what no further step looks at.
State Canonical(State s) {
  const bool sends_no_more = s.doing == kOver || s.doing == kEnded || s.doing == kRefused;
  if (sends_no_more && s.answer == kNoMessage && s.sent == kNoMessage) {
    s.time_of_a = s.lease_end = s.sent_at = s.answers_lost = 0;
  }
  if (s.sent == kNoMessage && s.answers_lost != 1) s.sent_at = 0;
  if (!s.alive) s.seen = s.seen_at = s.beat = 0;
  if (s.op != kUnknown) s.unknown_at = 0;
  if (s.op != kUnknown && s.op != kDispatched) s.dispatched_at = 0;
  return s;
}

class Machine {
 public:
  using Next = std::function<void(const char*, const State&)>;
  Machine(const std::set<Rule>& without, Next next) : next_(std::move(next)) {
    for (const Rule rule : without) off_ |= 1U << static_cast<unsigned>(rule);
  }

  void StepsOf(const State& s) const {
    Tick(s);
    OwnerSends(s);
    DatabaseCommits(s);
    OwnerReads(s);
    OwnerDispatches(s);
    Watch(s);
    Settle(s);
  }

  static std::string_view ViolationOf(const State& s) {
    if (s.effects_of_a + s.effects_of_b > 1) return "two effects";
    if (s.scanned && s.op == kDispatched && !s.b_sends) return "begun after the take-over";
    if (s.told_lost && s.op == kDispatched && s.alive && s.doing == kOver) {
      return "begun, and told that it was not";
    }
    return {};
  }

 private:
  bool Holds(Rule rule) const { return (off_ >> static_cast<unsigned>(rule) & 1U) == 0; }
  static bool MaySendStill(const State& s) {
    return s.doing == kAcked || s.doing == kArmed || s.doing == kChecked;
  }

  void Tick(const State& s) const {
    const bool must_arrive = s.in_flight_since != kNever && s.time >= s.in_flight_since + kDelay;
    if (s.time >= kEnd || must_arrive) return;
    for (const bool counts : {true, false}) {
      if (!counts && Holds(Rule::kClockCountsPauses)) continue;
      State n = s;
      ++n.time;
      if (counts) ++n.time_of_a;
      const bool is_armed = n.doing == kArmed || n.doing == kChecked;
      if (Holds(Rule::kWatchdog) && is_armed && n.time_of_a >= n.lease_end) {
        n.doing = kEnded;
        n.sent = n.answer = kNoMessage;
      }
      next_(counts ? "tick" : "tick that A's clock misses", n);
    }
  }

  void OwnerSends(const State& s) const {
    if (s.doing == kEnded || s.sent != kNoMessage || s.answer != kNoMessage) return;
    State n = s;
    n.sent_at = s.time_of_a;
    if (s.doing == kIdle) {
      n.doing = kAwaiting;
      n.sent = kBegin;
      next_("A sends its begin", n);
    } else if (s.doing == kAwaiting && s.answers_lost == 1) {
      if (Holds(Rule::kLeaseFromFirstSending)) n.sent_at = s.sent_at;
      n.answers_lost = 2;
      n.sent = kBegin;
      next_("A sends its begin again, over another connection", n);
    } else if (MaySendStill(s) && s.beat < kBeatsMax) {
      n.sent = kBeat;
      next_("A sends a beat", n);
    }
  }

  void DatabaseCommits(const State& s) const {
    if (s.sent == kNoMessage) return;
    State n = s;
    n.answer = s.sent;
    n.answer_at = s.sent_at;
    n.sent = kNoMessage;
    const bool lives = s.alive || !Holds(Rule::kFence);
    const bool is_again = s.sent == kBegin && s.applied;
    n.answer_ok = lives && !is_again;
    // Behind another head: A reads back what became of its rows, and learns that it was applied.
    if (is_again && Holds(Rule::kHead)) n.answer_ok = 1;
    if (lives && !(is_again && Holds(Rule::kHead))) {
      ++n.beat;
      if (s.sent == kBegin) {
        n.applied = 1;
        n.dispatched_at = s.time;
        if (s.op == kNone) n.op = kDispatched;
      }
    }
    next_("the database commits A's batch", n);
    if (s.sent != kBegin || s.answers_lost) return;
    n.answer = kNoMessage;
    n.answer_at = n.answer_ok = 0;
    n.answers_lost = 1;
    next_("the database commits, and its answer is lost", n);
  }

  void OwnerReads(const State& s) const {
    if (s.answer == kNoMessage || s.doing == kEnded) return;
    State n = s;
    n.answer = kNoMessage;
    n.answer_at = n.answer_ok = 0;
    const int from = Holds(Rule::kLeaseFromSending) ? s.answer_at : s.time_of_a;
    if (s.answer_ok) n.lease_end = static_cast<signed char>(from + kLease);
    if (s.answer == kBegin) {
      n.doing = s.answer_ok ? kAcked : kOver;
      n.told_lost = !s.answer_ok;
    }
    next_("A reads the answer", n);
  }

  void OwnerDispatches(const State& s) const {
    State n = s;
    switch (s.doing) {
      case kAcked:
        n.doing = kArmed;
        if (!Holds(Rule::kWatchdog) || s.time_of_a < s.lease_end) next_("A arms its watchdog", n);
        n.doing = kRefused;
        if (s.time_of_a >= s.lease_end) next_("A gives the attempt up", n);
        break;
      case kArmed:
        n.doing = kChecked;
        if (!Holds(Rule::kCheck) || s.time_of_a < s.lease_end) next_("A checks its lease", n);
        n.doing = kRefused;
        if (s.time_of_a >= s.lease_end) next_("A gives the attempt up", n);
        break;
      case kChecked:
        n.doing = kOver;
        n.in_flight_since = s.time;
        next_("A SENDS ATTEMPT 1", n);
        break;
      case kRefused:
        // Whoever was the owner may testify. An attempt that a taker wrote off stays unknown.
        n.doing = kOver;
        if (s.op == kDispatched && !s.b_sends) n.op = kNotSentOp;
        if (s.op == kDone && !Holds(Rule::kTestimonyOfItsAttempt)) n.op = kNotSentOp;
        next_("A testifies that nothing was sent", n);
        break;
      default:
        break;
    }
    if (s.in_flight_since == kNever) return;
    n = s;
    n.in_flight_since = kNever;
    ++n.effects_of_a;
    next_("attempt 1 ARRIVES", n);
  }

  void Watch(const State& s) const {
    State n = s;
    if (s.alive && s.seen != s.beat) {
      n.seen = s.beat;
      n.seen_at = s.time;
      next_("B reads the beat", n);
    }
    n = s;
    if (s.alive && s.time - s.seen_at >= kDead &&
        (s.seen == s.beat || !Holds(Rule::kBeatIsCompared))) {
      n.alive = 0;
      next_("B declares A dead", n);
    }
    n = s;
    if (s.alive || s.scanned) return;
    n.scanned = 1;
    if (s.op == kDispatched) {
      n.op = Holds(Rule::kLostOwnerIsUnknown) ? kUnknown : kNotSentOp;
      n.unknown_at = s.time;
    }
    next_("B takes over", n);
  }

  void Settle(const State& s) const {
    State n = s;
    if (s.op == kUnknown && s.effects_of_a) {
      n.op = kDone;
      next_("a probe finds the effect", n);
    } else if (s.op == kUnknown) {
      const int from = Holds(Rule::kAbsenceFromTakeOver) ? s.unknown_at : s.dispatched_at;
      n.op = kAbsentOp;
      if (s.time - from >= kAbsent) next_("a probe finds no effect", n);
    } else if (s.op == kAbsentOp || s.op == kNotSentOp) {
      n.op = kDispatched;
      n.b_sends = 1;
      next_("B begins the next attempt", n);
    } else if (s.op == kDispatched && s.b_sends) {
      n.op = kDone;
      n.b_sends = 0;
      ++n.effects_of_b;
      next_("B SENDS THE NEXT ATTEMPT", n);
    }
  }

  unsigned off_ = 0;
  const Next next_;
};

}  // namespace

Found Explore(const std::set<Rule>& without) {
  struct Origin {
    const State* before;
    const char* step;
  };
  std::unordered_map<State, Origin, Hash> known;
  std::deque<const State*> queue;
  const State* now = nullptr;
  const Machine machine(without, [&](const char* step, const State& next) {
    const auto [at, is_new] = known.try_emplace(Canonical(next), Origin{now, step});
    if (is_new) queue.push_back(&at->first);
  });
  queue.push_back(&known.try_emplace(State(), Origin{nullptr, ""}).first->first);
  Found found;
  while (!queue.empty()) {
    now = queue.front();
    queue.pop_front();
    found.violation = Machine::ViolationOf(*now);
    if (!found.violation.empty()) break;
    machine.StepsOf(*now);
  }
  found.states = known.size();
  if (found.violation.empty()) return found;
  for (const State* at = now; known.at(*at).before != nullptr; at = known.at(*at).before) {
    found.trace.emplace_back(known.at(*at).step);
  }
  std::reverse(found.trace.begin(), found.trace.end());
  return found;
}

}  // namespace recourse::lease_model
