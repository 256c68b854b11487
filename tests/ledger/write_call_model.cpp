#include "tests/ledger/write_call_model.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace recourse::model {
namespace {

constexpr std::uint8_t kRequestsMax = 3;
constexpr std::uint8_t kCrashesMax = 2;
constexpr std::uint8_t kTimeoutsMax = 2;
constexpr std::uint8_t kAttemptsMax = 3;
constexpr std::uint8_t kCountMax = 3;

std::uint8_t Plus(std::uint8_t value, int by) { return static_cast<std::uint8_t>(value + by); }
std::uint8_t Counted(std::uint8_t value) { return std::min(Plus(value, 1), kCountMax); }

bool MaySendAgain(Phase phase) {
  return phase == Phase::kNone || phase == Phase::kProvenAbsent || phase == Phase::kNotSent;
}

// All successors of one state.
class Step {
 public:
  Step(const State& from, const Rules& rules, std::set<std::string>& refused)
      : s_(from), rules_(rules), refused_(refused) {}

  std::vector<State> Successors() {
    if (s_.up) {
      Request();
      Dispatch();
      Answer();
      Settle();
      BreakFlow();
      CompensateFromProcess();
    }
    Network();
    UndoNetwork();
    CrashAndRestart();
    return std::move(next_);
  }

 private:
  template <class Change>
  void Add(Change change) {
    State next = s_;
    change(next);
    next_.push_back(next);
  }

  // A move of the operation in the ledger: only if the product's table has it.
  template <class Change>
  void Move(Phase to, Change change) {
    if (!IsLegal(s_.phase, to)) {
      refused_.insert(std::string(NameOf(s_.phase)) + " -> " + std::string(NameOf(to)));
      return;
    }
    Add([&](State& next) {
      next.phase = to;
      change(next);
    });
  }

  void Tell(State& next, Told told) const {
    if (next.told != Told::kSuccess) next.told = told;
  }

  void Request() {
    if (s_.requests >= kRequestsMax || s_.flight != Flight::kNone) return;
    bool may_claim = MaySendAgain(s_.phase);
    if (!rules_.no_inprogress_expiry) {
      may_claim = may_claim || s_.phase == Phase::kDispatching || s_.phase == Phase::kUncertain;
    }
    if (s_.flow_broken && rules_.saga_fence_forward) may_claim = false;
    Add([&](State& next) {
      next.requests = Plus(next.requests, 1);
      if (may_claim && s_.attempt < kAttemptsMax) {
        next.flight = Flight::kClaimed;
        next.sent_after_break = next.sent_after_break || s_.flow_broken;
      } else if (s_.phase == Phase::kSucceeded) {
        next.told = Told::kSuccess;
      } else if (s_.phase == Phase::kRejected) {
        Tell(next, Told::kFailure);
      }
    });
  }

  void Dispatch() {
    if (s_.flight == Flight::kClaimed) {
      const auto next_attempt = Plus(s_.attempt, 1);
      if (rules_.durable_before_send) {
        Move(Phase::kDispatching, [&](State& next) {
          next.flight = Flight::kDurable;
          next.attempt = next_attempt;
        });
      } else {
        Add([&](State& next) {
          next.flight = Flight::kSent;
          next.requests_in_network = Plus(next.requests_in_network, 1);
          next.attempt = next_attempt;
        });
      }
      Add([](State& next) { next.flight = Flight::kNone; });  // connection refused
    }
    if (s_.flight == Flight::kDurable) {
      Add([](State& next) {
        next.flight = Flight::kSent;
        next.requests_in_network = Plus(next.requests_in_network, 1);
      });
      if (rules_.connects_beside_commit) {
        Move(Phase::kNotSent, [](State& next) { next.flight = Flight::kNone; });
      }
    }
    if (s_.flight == Flight::kSent && s_.timeouts < kTimeoutsMax) Timeout();
  }

  void Timeout() {
    if (!rules_.no_auto_retry_on_reset) {
      Add([](State& next) {
        next.requests_in_network = std::min<std::uint8_t>(Plus(next.requests_in_network, 1), 2);
        next.timeouts = Plus(next.timeouts, 1);
      });
      return;
    }
    Move(rules_.reset_is_not_notsent ? Phase::kUncertain : Phase::kNotSent, [](State& next) {
      next.flight = Flight::kNone;
      next.timeouts = Plus(next.timeouts, 1);
    });
  }

  void Deliver(int effects, Reply reply) {
    Add([&](State& next) {
      next.requests_in_network = Plus(next.requests_in_network, -1);
      next.reply = reply;
      next.reply_attempt = s_.attempt;
      if (effects == 0) return;
      next.effects = Counted(next.effects);
      next.effect_after_undo = next.effect_after_undo || s_.undo_effects > 0;
    });
  }

  void Network() {
    if (s_.requests_in_network > 0) {
      Deliver(1, Reply::kOk);
      Deliver(1, Reply::kError);
      Deliver(0, Reply::kRefused);
      Deliver(0, Reply::kError);
      Add([](State& next) {
        next.requests_in_network = Plus(next.requests_in_network, -1);  // lost
      });
    }
    if (s_.reply == Reply::kNone) return;
    const auto drop = [](State& next) {
      next.reply = Reply::kNone;
      next.reply_attempt = 0;
    };
    Add(drop);  // lost
    if (!s_.up || s_.flight != Flight::kSent) return;
    if (s_.reply_attempt != s_.attempt && rules_.resp_bound_to_attempt) return;
    Add([&](State& next) {
      drop(next);
      next.flight = s_.reply == Reply::kOk        ? Flight::kGotSuccess
                    : s_.reply == Reply::kRefused ? Flight::kGotRefusal
                                                  : Flight::kGotServerError;
    });
  }

  void Answer() {
    switch (s_.flight) {
      case Flight::kGotSuccess:
        if (rules_.durable_before_answer) {
          Move(Phase::kSucceeded, [](State& next) { next.flight = Flight::kSuccessStored; });
        } else {
          Add([](State& next) {
            next.told = Told::kSuccess;
            next.flight = Flight::kAnsweredEarly;
          });
        }
        break;
      case Flight::kAnsweredEarly:
        Move(Phase::kSucceeded, [](State& next) { next.flight = Flight::kNone; });
        break;
      case Flight::kSuccessStored:
        Add([](State& next) {
          next.told = Told::kSuccess;
          next.flight = Flight::kNone;
        });
        break;
      case Flight::kGotRefusal:
        Move(Phase::kRejected, [](State& next) { next.flight = Flight::kRefusalStored; });
        break;
      case Flight::kRefusalStored:
        Add([this](State& next) {
          Tell(next, Told::kFailure);
          next.flight = Flight::kNone;
        });
        break;
      case Flight::kGotServerError:
        if (rules_.e5xx_uncertain) {
          Move(Phase::kUncertain, [](State& next) { next.flight = Flight::kNone; });
        } else {
          Move(Phase::kRejected, [](State& next) { next.flight = Flight::kRefusalStored; });
        }
        break;
      default:
        break;
    }
  }

  void Settle() {
    if (s_.phase != Phase::kUncertain || s_.flight != Flight::kNone) return;
    if (s_.effects > 0) {
      Move(Phase::kSucceeded, [](State&) {});
    } else if (!rules_.probe_settle || s_.requests_in_network == 0) {
      Move(Phase::kProvenAbsent, [](State&) {});
    }
  }

  void BreakFlow() {
    if (s_.flight != Flight::kNone) return;
    if (!s_.flow_broken) {
      if (s_.phase != Phase::kNone) Add([](State& next) { next.flow_broken = true; });
      return;
    }
    if (s_.undo != Undo::kNone) return;
    const bool had_no_effect = s_.phase == Phase::kProvenAbsent || s_.phase == Phase::kNotSent ||
                               s_.phase == Phase::kRejected;
    if (s_.phase == Phase::kSucceeded ||
        (s_.phase == Phase::kUncertain && !rules_.no_comp_while_inflight) ||
        (had_no_effect && !rules_.null_comp_check)) {
      Add([](State& next) { next.undo = Undo::kQueued; });
    }
  }

  void CompensateFromProcess() {
    if (s_.undo == Undo::kQueued && s_.undo_flight == UndoFlight::kNone) {
      Add([](State& next) {
        next.undo = Undo::kDispatching;
        next.undo_flight = UndoFlight::kDurable;
      });
    }
    if (s_.undo_flight == UndoFlight::kDurable) {
      Add([](State& next) {
        next.undo_flight = UndoFlight::kSent;
        next.undos_in_network = Plus(next.undos_in_network, 1);
      });
    }
    if (s_.undo_flight == UndoFlight::kSent && s_.undo_timeouts < kTimeoutsMax) {
      Add([](State& next) {
        next.undo_flight = UndoFlight::kNone;
        next.undo = Undo::kUncertain;
        next.undo_timeouts = Plus(next.undo_timeouts, 1);
      });
    }
    if (s_.undo == Undo::kUncertain && s_.undo_flight == UndoFlight::kNone) {
      if (!rules_.comp_at_most_once_or_idem) {
        Add([](State& next) { next.undo = Undo::kQueued; });
      } else if (s_.undos_in_network == 0) {
        Add([this](State& next) { next.undo = s_.undo_effects > 0 ? Undo::kDone : Undo::kQueued; });
      }
    }
  }

  void UndoNetwork() {
    if (s_.undos_in_network > 0) {
      Add([this](State& next) {
        next.undos_in_network = Plus(next.undos_in_network, -1);
        next.undo_effects = Counted(next.undo_effects);
        next.undo_reply = true;
        next.empty_undo = next.empty_undo || s_.effects == 0;
      });
      Add([](State& next) { next.undos_in_network = Plus(next.undos_in_network, -1); });
    }
    if (!s_.undo_reply) return;
    Add([](State& next) { next.undo_reply = false; });
    if (s_.up && s_.undo_flight == UndoFlight::kSent) {
      Add([](State& next) {
        next.undo_reply = false;
        next.undo_flight = UndoFlight::kNone;
        next.undo = Undo::kDone;
      });
    }
  }

  void CrashAndRestart() {
    if (s_.up) {
      if (s_.crashes >= kCrashesMax) return;
      Add([](State& next) {
        next.up = false;
        next.flight = Flight::kNone;
        next.undo_flight = UndoFlight::kNone;
        next.crashes = Plus(next.crashes, 1);
      });
      return;
    }
    const auto restart = [](State& next) {
      next.up = true;
      if (next.undo == Undo::kDispatching) next.undo = Undo::kUncertain;
    };
    if (s_.phase != Phase::kDispatching) {
      Add(restart);
    } else {
      Move(rules_.recover_as_uncertain ? Phase::kUncertain : Phase::kNotSent, restart);
    }
  }

  const State s_;
  const Rules& rules_;
  std::set<std::string>& refused_;
  std::vector<State> next_;
};

void Check(const State& s, std::set<std::string>& violations) {
  const bool is_quiet = s.flight == Flight::kNone;
  const bool log_says_absent =
      s.phase == Phase::kRejected || s.phase == Phase::kProvenAbsent || s.phase == Phase::kNotSent;
  if (s.effects > 1) violations.insert("executed twice");
  if (s.told == Told::kSuccess && s.effects == 0) violations.insert("success without effect");
  if (s.told == Told::kFailure && s.effects > 0) violations.insert("failure told, effect exists");
  if (s.undo_effects > 1) violations.insert("compensated twice");
  if (s.empty_undo) violations.insert("empty compensation");
  if (s.effect_after_undo) violations.insert("effect after compensation");
  if (log_says_absent && s.effects > 0 && s.requests_in_network == 0 && is_quiet) {
    violations.insert("log denies an effect");
  }
  if (s.told == Told::kSuccess && s.phase != Phase::kSucceeded && s.up && is_quiet) {
    violations.insert("answer not reproducible");
  }
  if (s.sent_after_break) violations.insert("dispatched after the flow closed");
}

}  // namespace

Outcome Explore(const Rules& rules) {
  Outcome outcome;
  std::set<State> seen = {State()};
  std::deque<State> open = {State()};
  while (!open.empty()) {
    const State state = open.front();
    open.pop_front();
    Check(state, outcome.violations);
    for (const State& next : Step(state, rules, outcome.refused_moves).Successors()) {
      if (seen.insert(next).second) open.push_back(next);
    }
  }
  outcome.states = seen.size();
  return outcome;
}

}  // namespace recourse::model
