// An executable model of one write call: one key, repeats, crashes, timeouts, a network that loses
// and delays, a probe, the break of its flow and the compensation. Every move of the operation in
// the ledger is asked of the product's own transition table.
#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "filters/ledger/model/event.h"

namespace recourse::model {

// The rules of the protocol. A mutant has one of them off.
struct Rules {
  bool durable_before_send = true;
  bool recover_as_uncertain = true;
  bool no_inprogress_expiry = true;
  bool probe_settle = true;
  bool null_comp_check = true;
  bool no_comp_while_inflight = true;
  bool durable_before_answer = true;
  bool comp_at_most_once_or_idem = true;
  bool e5xx_uncertain = true;
  bool saga_fence_forward = true;
  bool no_auto_retry_on_reset = true;
  bool reset_is_not_notsent = true;
  bool resp_bound_to_attempt = true;
  // Not a rule of safety: the connection is opened beside the commit, so that a refused one is
  // found when DISPATCHING may be durable already.
  bool connects_beside_commit = false;
};

// What the running process knows of its attempt.
enum class Flight : std::uint8_t {
  kNone,
  kClaimed,  // in memory only
  kDurable,  // DISPATCHING is durable, nothing is sent
  kSent,
  kGotSuccess,
  kGotRefusal,
  kGotServerError,
  kAnsweredEarly,  // mutant: answered before the outcome was durable
  kSuccessStored,
  kRefusalStored,
};
enum class Reply : std::uint8_t { kNone, kOk, kRefused, kError };
enum class Told : std::uint8_t { kNothing, kSuccess, kFailure };
// The log of the compensation.
enum class Undo : std::uint8_t { kNone, kQueued, kDispatching, kDone, kUncertain };
enum class UndoFlight : std::uint8_t { kNone, kDurable, kSent };

struct State {
  bool up = true;
  Phase phase = Phase::kNone;
  std::uint8_t attempt = 0;
  Flight flight = Flight::kNone;
  std::uint8_t requests_in_network = 0;
  Reply reply = Reply::kNone;
  std::uint8_t reply_attempt = 0;
  std::uint8_t effects = 0;
  Told told = Told::kNothing;
  bool flow_broken = false;
  Undo undo = Undo::kNone;
  UndoFlight undo_flight = UndoFlight::kNone;
  std::uint8_t undos_in_network = 0;
  bool undo_reply = false;
  std::uint8_t undo_effects = 0;
  bool effect_after_undo = false;
  bool empty_undo = false;
  std::uint8_t requests = 0;
  std::uint8_t crashes = 0;
  std::uint8_t timeouts = 0;
  std::uint8_t undo_timeouts = 0;
  bool sent_after_break = false;

  auto operator<=>(const State&) const = default;
};

struct Outcome {
  std::size_t states = 0;
  std::set<std::string> violations;
  // Moves that the protocol wanted and the transition table does not have.
  std::set<std::string> refused_moves;
};

// Visits every reachable state.
Outcome Explore(const Rules& rules);

}  // namespace recourse::model
