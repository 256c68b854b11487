// What must hold of every run, by the events, the backend's own truth, and what agents were told.
#include <fmt/format.h>

#include <algorithm>

#include "tests/sim/sim_policy.h"
#include "tests/sim/simulation.h"

namespace recourse {
namespace {

struct Operation {
  Event first, last;
  std::string ref;  // of a step
  std::uint64_t success = 0;
  int dispatches = 0;
  int resends = 0;  // sent again although its outcome was unknown
};

class Checker {
 public:
  Checker(const SimRun& run, SimBackend& backend) : run_(run), backend_(backend) {
    for (const Event& event : run.events) Take(event);
  }

  std::vector<std::string> Check() {
    problems_ = run_.problems;
    if (!run_.is_quiet) Say("I10: the run did not come to rest");
    for (const auto& [number, operation] : operations_) {
      if (operation.first.undoes == 0) {
        CheckStep(operation);
      } else {
        CheckUndo(operation);
      }
    }
    for (const auto& [number, rows] : asked_) CheckApproval(rows);
    for (const SimTold& told : run_.told) CheckTold(told);
    CheckMoves();
    for (const FlowState& state : run_.flows) CheckFlow(state);
    return std::move(problems_);
  }

 private:
  template <class... Args>
  void Say(fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void Take(const Event& event) {
    Operation& operation = operations_[event.operation];
    if (operation.first.operation == 0) {
      operation.first = event;
      if (event.undoes == 0) operation.ref = event.path.substr(event.path.rfind('/') + 1);
    } else if (!IsLegal(operation.last.phase, event.phase)) {
      Say("operation {}: {} to {}", event.operation, NameOf(operation.last.phase),
          NameOf(event.phase));
    }
    if (event.phase == Phase::kDispatching) {
      ++operation.dispatches;
      if (operation.last.phase == Phase::kUncertain) ++operation.resends;
    }
    const bool has_effect = event.phase == Phase::kSucceeded || event.phase == Phase::kAnswerLost;
    if (has_effect && operation.success == 0) operation.success = event.id;
    operation.last = event;
    if (event.approval) asked_[event.operation].push_back(&event);
    if (event.undoes == 0) by_ref_[operation.ref] = event.operation;
  }

  // The same call was asked about again, once nobody had decided it in time or the no had had its
  // time: that one tells.
  bool WasAskedAnew(const Operation& operation) const {
    const auto newest = by_ref_.find(operation.ref);
    const Phase phase = operation.last.phase;
    return (phase == Phase::kExpired || phase == Phase::kDenied) && newest != by_ref_.end() &&
           newest->second != operation.first.operation;
  }

  // I1, I6: what the log says of a step is what the backend did.
  void CheckStep(const Operation& operation) {
    const auto& effects = backend_.EffectsOf(operation.ref);
    const Phase phase = operation.last.phase;
    const std::string_view name = NameOf(phase);
    if (effects.size() > 1) Say("I1: {} has {} effects", operation.ref, effects.size());
    const bool is_there = !effects.empty();
    if (IsOpen(phase)) {
      if (phase == Phase::kDispatching) Say("I10: {} is {}", operation.ref, name);
    } else if (MayHaveEffect(phase) || phase == Phase::kCompensated) {
      if (!is_there) Say("I6: {} is {} without an effect", operation.ref, name);
    } else if (is_there && !WasAskedAnew(operation)) {
      Say("I6: {} is {} and has an effect", operation.ref, name);
    }
    if (!is_there || WasAskedAnew(operation)) return;
    const bool is_undone = effects.front().undone > 0;
    if (phase == Phase::kCompensated && !is_undone) Say("I6: {} was not undone", operation.ref);
    // A human whose word the process did not live to hear had no time to repeat it.
    const bool is_untold = effects.front().is_by_hand;
    if (phase != Phase::kCompensated && is_undone && !is_untold &&
        !MayBeUndone(operation.first.operation)) {
      Say("I6: {} is {} and was undone", operation.ref, name);
    }
    const bool by_key = operation.last.backend == "bank";
    if (operation.resends > 0 && !by_key) Say("I1: {} was sent again", operation.ref);
  }

  // Its undo was sent, and nobody knows.
  bool MayBeUndone(std::uint64_t step) const {
    return std::any_of(operations_.begin(), operations_.end(), [&](const auto& one) {
      return one.second.first.undoes == step && one.second.last.phase == Phase::kUncertain;
    });
  }

  // I8, I10.
  void CheckUndo(const Operation& operation) {
    const Operation& step = operations_[operation.first.undoes];
    if (step.success == 0 || step.success > operation.first.id) {
      Say("I9: an undo of {} before its effect was proved", step.ref);
    }
    int retries = 0;
    for (const auto& [number, times] : run_.retries) retries += times;
    const Tool* const tool = run_.policy->FindTool(step.first.tool);
    if (tool->undo->repeatable == Repeatable::kNo && operation.resends > retries) {
      Say("I8: the undo of {} was repeated {} times", step.ref, operation.resends);
    }
    const int most = kSimAttemptsMax * (1 + run_.words);
    if (operation.dispatches > most) {
      Say("I10: the undo of {} was tried {} times", step.ref, operation.dispatches);
    }
  }

  // I11: each dispatch of a gated call uses up an approval of its own.
  void CheckApproval(const std::vector<const Event*>& rows) {
    const std::string& ref = operations_[rows.front()->operation].ref;
    const Event* word = nullptr;  // not used yet
    for (const Event* const row : rows) {
      if (row->cause == Cause::kTooLate) continue;
      if (row->phase == Phase::kDispatching) {
        if (word == nullptr) {
          Say("I11: {} was sent without an approval of its own", ref);
        } else {
          CheckUse(*word, *row, ref);
        }
      }
      word = row->phase == Phase::kApproved ? row : nullptr;
    }
    if (IsClaim(rows.back()->phase)) Say("I10: {} still waits", ref);
  }

  void CheckUse(const Event& word, const Event& sent, const std::string& ref) {
    const ApprovalFacts& facts = *word.approval;
    const std::int64_t ends_ms = facts.asked_ms + facts.expires_ms;  // of the time to decide
    const auto is_good = [&](const ApprovalDecision& one) {
      return one.kind != ApprovalDecision::Kind::kRejected && !one.is_late && !one.is_void &&
             one.who != word.caller && one.digest == sent.approval->digest &&
             one.wall_ms <= ends_ms;
    };
    const auto yes = std::find_if(facts.decisions.rbegin(), facts.decisions.rend(), is_good);
    if (yes == facts.decisions.rend()) {
      return Say("I11: nobody who may approved what was sent of {}", ref);
    }
    const std::int64_t soon_ms = yes->wall_ms + limits::kApprovalSentWithin.count();
    if (sent.wall_ms > std::max(ends_ms, soon_ms)) Say("I11: {} was sent too late", ref);
    Digest before{}, then{};  // policies: at one moment two may have been in force
    for (const auto& [since_ms, digest] : run_.in_force) {
      if (since_ms < sent.wall_ms) before = digest;
      if (since_ms <= sent.wall_ms) then = digest;
    }
    if (facts.policy != then && facts.policy != before) {
      Say("I11: {} was sent under another policy", ref);
    }
  }

  // I3, I5, I11.
  void CheckTold(const SimTold& one) {
    const auto& effects = backend_.EffectsOf(one.ref);
    const auto at = by_ref_.find(one.ref);
    if (one.told.error == ErrorCode::kApprovalPending) return;
    const bool is_refused = one.told.error == ErrorCode::kApprovalRejected ||
                            one.told.error == ErrorCode::kApprovalExpired;
    if (is_refused && !effects.empty()) Say("I11: {} was refused and took effect", one.ref);
    if (one.told.status >= 200 && one.told.status <= 299) {
      if (effects.size() != 1) {
        Say("I3: {} was told {} and has {} effects", one.ref, one.told.status, effects.size());
      } else if (one.told.body.find('"' + effects.front().id + '"') == std::string::npos &&
                 one.told.body.find(R"("settled_by":"human")") == std::string::npos) {
        Say("I3: {} was told {}", one.ref, one.told.body);
      }
      if (at == by_ref_.end() || operations_[at->second].success == 0) {
        Say("I3: the log knows no success of {}", one.ref);
      }
    }
    if (one.told.Field("Recourse-Outcome") == "not_executed") {
      for (const SimEffect& effect : effects) {
        if (effect.sent < SaidAt(one)) Say("I5: {} was told that it was not executed", one.ref);
      }
    }
    if (one.told.error == ErrorCode::kCompensated &&
        (at == by_ref_.end() || operations_[at->second].last.phase != Phase::kCompensated)) {
      Say("{} was told that it was undone", one.ref);
    }
  }

  // When the outcome that an agent was told was written down; the beginning of time where the
  // answer names no event: then another attempt may have been on its way.
  MonoTime SaidAt(const SimTold& one) const {
    const std::string id = one.told.Field("Recourse-Event");
    for (const Event& event : run_.events) {
      if (std::to_string(event.id) == id) return run_.begin + Millis(event.wall_ms - run_.begin_ms);
    }
    return MonoTime::min();
  }

  // The table of flows, and what a broken flow may do.
  void CheckMoves() {
    for (const FlowState& move : run_.moves) {
      auto [at, is_new] = phases_.emplace(move.number, FlowPhase::kOpen);
      const FlowPhase before = at->second;
      if (run_.lets_rows_go && move.phase == before) continue;  // written anew, to stay
      if (!IsLegal(before, move.phase)) {
        Say("flow {}: {} to {}", move.number, NameOf(before), NameOf(move.phase));
      }
      if (before == FlowPhase::kCommitted && move.cause != FlowCause::kHuman) {
        Say("flow {}: broken by {} after its end", move.number, NameOf(move.cause));
      }
      if (move.phase == FlowPhase::kUndoing && before == FlowPhase::kBreaking) {
        for (const FlowStep& step : move.steps) {
          if (IsOpen(step.phase)) Say("flow {}: undone around an unknown", move.number);
        }
      }
      if (move.phase == FlowPhase::kBreaking) broken_.insert(move.number);
      if (move.cause == FlowCause::kHuman) human_.insert(move.number);
      at->second = move.phase;
    }
  }

  void CheckFlow(const FlowState& state) {
    const auto moved = phases_.find(state.number);
    if (moved != phases_.end() && moved->second != state.phase) {
      Say("flow {} is {}, its rows say {}", state.number, NameOf(state.phase),
          NameOf(moved->second));
    }
    if (state.phase == FlowPhase::kBreaking || state.phase == FlowPhase::kUndoing) {
      Say("I10: flow {} is still {}", state.number, NameOf(state.phase));
    }
    if (state.phase == FlowPhase::kOpen && state.has_deadline) {
      Say("I10: flow {} outlived its deadline", state.number);
    }
    CheckDuty(state);
    // A step that had no effect in its flow may have been made again in the next one.
    FlowState own = state;
    std::erase_if(own.steps, [&](const FlowStep& step) {
      if (WasAskedAnew(operations_[step.operation])) return true;
      return std::any_of(run_.flows.begin(), run_.flows.end(), [&](const FlowState& other) {
        return other.number > state.number && Holds(other, step.operation);
      });
    });
    CheckSteps(own);
  }

  static bool Holds(const FlowState& state, std::uint64_t operation) {
    return std::any_of(state.steps.begin(), state.steps.end(),
                       [&](const FlowStep& step) { return step.operation == operation; });
  }

  void CheckSteps(const FlowState& state) {
    if (!broken_.contains(state.number)) {
      for (const FlowStep& step : state.steps) {
        const bool by_hand = operations_[step.operation].last.cause == Cause::kHuman;
        if (!IsUndone(step) || by_hand) continue;
        Say("I8: a step of flow {}, which never broke, was undone", state.number);
      }
      return;
    }
    CheckOrder(state);
    if (state.phase == FlowPhase::kUndone) CheckUndone(state);
    if (state.phase == FlowPhase::kNeedsHuman) CheckParked(state);
  }

  const SimEffect* EffectOf(const FlowStep& step) {
    const auto& effects = backend_.EffectsOf(operations_[step.operation].ref);
    return effects.empty() ? nullptr : &effects.front();
  }
  bool IsUndone(const FlowStep& step) {
    const SimEffect* const effect = EffectOf(step);
    return effect != nullptr && effect->undone > 0;
  }

  // What the policy says breaks a flow has broken it.
  void CheckDuty(const FlowState& state) {
    if (broken_.contains(state.number) || human_.contains(state.number)) return;
    for (const FlowStep& step : state.steps) {
      const Operation& operation = operations_[step.operation];
      const Phase phase = operation.last.phase;
      const bool failed = phase == Phase::kRejected || phase == Phase::kProvenAbsent;
      const bool unknown = phase == Phase::kUncertain;
      const Tool* const tool = run_.policy->FindTool(operation.last.tool);
      const bool breaks = (failed && tool->breaks_flow != BreaksFlow::kNever) ||
                          (unknown && tool->breaks_flow == BreaksFlow::kOnUnknown);
      if (breaks && state.phase == FlowPhase::kOpen) {
        Say("I8: flow {} goes on although {} is {}", state.number, operation.ref, NameOf(phase));
      }
    }
  }

  // I8: reverse order of proof. I9: nothing happens any more once the undo has begun.
  void CheckOrder(const FlowState& state) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> undone;  // by stamp: proof
    MonoTime first = MonoTime::max();
    for (const FlowStep& step : state.steps) {
      const SimEffect* const effect = EffectOf(step);
      if (effect == nullptr || effect->undone == 0) continue;
      undone.emplace_back(effect->undone_stamp, operations_[step.operation].success);
      first = std::min(first, effect->undone_at);
    }
    std::sort(undone.begin(), undone.end());
    for (std::size_t i = 1; i < undone.size() && !run_.goes_on; ++i) {
      if (undone[i].second > undone[i - 1].second) {
        Say("I8: flow {} was not undone in reverse", state.number);
        break;
      }
    }
    for (const FlowStep& step : state.steps) {
      const SimEffect* const effect = EffectOf(step);
      if (effect != nullptr && effect->at > first) {
        Say("I9: {} took effect after the undo of flow {} began", operations_[step.operation].ref,
            state.number);
      }
    }
  }

  static bool HasUndo(std::string_view kind) { return kind != "notes" && kind != "marks"; }

  void CheckUndone(const FlowState& state) {
    for (const FlowStep& step : state.steps) {
      const SimEffect* const effect = EffectOf(step);
      if (effect == nullptr || effect->undone > 0 || !HasUndo(effect->kind)) continue;
      if (step.end == StepEnd::kNotNeeded && human_.contains(state.number)) continue;
      Say("I8: flow {} is UNDONE and {} stands", state.number, operations_[step.operation].ref);
    }
  }

  void CheckParked(const FlowState& state) {
    if (state.reason.empty()) Say("I8: flow {} is parked without a reason", state.number);
    if (state.cause == FlowCause::kDeadline) return;
    if (run_.fault_percent == 0) Say("I8: flow {} is parked without a fault", state.number);
    // A human's word on a step is written before the flow moves on; a death between the two leaves
    // the flow parked, for that human to try again.
    const bool has_cause =
        std::any_of(state.steps.begin(), state.steps.end(), [&](const FlowStep& step) {
          return IsOpen(step.phase) || NeedsUndo(step) ||
                 operations_[step.operation].last.cause == Cause::kHuman;
        });
    if (!has_cause) Say("I8: flow {} is parked and nothing is left", state.number);
  }

  const SimRun& run_;
  SimBackend& backend_;
  std::map<std::uint64_t, Operation> operations_;
  std::map<std::string, std::uint64_t> by_ref_;
  std::map<std::uint64_t, std::vector<const Event*>> asked_;  // rows of gated operations
  std::map<std::uint64_t, FlowPhase> phases_;
  std::set<std::uint64_t> broken_, human_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> Check(const SimRun& run, SimBackend& backend) {
  return Checker(run, backend).Check();
}

std::string Tell(const SimRun& run) {
  std::string text = fmt::format("{} lives\n", run.lives);
  for (const Event& event : run.events) {
    text +=
        fmt::format("{:5} {:9} {} op {} {} {} {} ({}) attempt {} {}{}\n", event.id,
                    event.wall_ms % 10'000'000, event.flow.substr(28), event.operation, event.tool,
                    event.path, NameOf(event.phase), NameOf(event.cause), event.attempt,
                    event.detail, event.undoes == 0 ? "" : fmt::format(" undoes {}", event.undoes));
  }
  for (const FlowState& move : run.moves) {
    text += fmt::format("{:5} {:9} {} flow {} {} ({}) {}\n", move.row, move.changed_ms % 10'000'000,
                        move.id.substr(28), move.number, NameOf(move.phase), NameOf(move.cause),
                        move.reason);
  }
  for (const SimTold& told : run.told) {
    text += fmt::format("told {} {} {} {}\n", told.ref, told.told.status,
                        told.told.Field("Recourse-Outcome"), told.told.body.substr(0, 120));
  }
  for (const FlowState& state : run.flows) {
    text += fmt::format("flow {} {} is {}: {}\n", state.number, state.id.substr(28),
                        NameOf(state.phase), state.reason);
  }
  return text;
}

}  // namespace recourse
