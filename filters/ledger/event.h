// What the ledger remembers: events, the phases of an operation, and the one transition table
// (semantics 2.4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "policy/template.h"
#include "proxy/base/hash.h"
#include "proxy/base/http_message.h"

namespace recourse {

// Stored as numbers: never renumber.
enum class Phase : std::uint8_t {
  kNone = 0,           // W0: nothing durable
  kClaimed = 1,        // W1
  kApproved = 2,       // W2
  kDenied = 3,         // W2x
  kExpired = 4,        // W2x
  kDispatching = 5,    // W3
  kUncertain = 6,      // W4
  kSucceeded = 7,      // W5
  kAnswerLost = 8,     // W5b: executed, answer incomplete
  kNotSent = 9,        // W6
  kRejected = 10,      // W7
  kProvenAbsent = 11,  // W8
  kCompensated = 12,   // W9
  kTombstone = 13,     // W11
};
inline constexpr int kPhaseCount = 14;

enum class Status : std::uint8_t { kPending, kSuccess, kFailed, kCompensated };

// Why a transition happened; stored as a number: never renumber.
enum class Cause : std::uint8_t {
  kNone = 0,
  kFirstCall = 1,
  kRepeat = 2,  // a repeat started a new attempt
  kAnswer = 3,  // the backend answered
  kConnectFailed = 4,
  kTimeout = 5,
  kConnectionLost = 6,  // reset, or closed before a whole answer
  kProtocolError = 7,   // the answer is not HTTP
  kServerError = 8,     // 5xx and other statuses that prove nothing
  kCrash = 9,           // found DISPATCHING at start
  kProbePresent = 10,
  kProbeAbsent = 11,
  kHuman = 12,
  kCanceled = 13,  // shut down before anything was sent
  kResend = 14,    // a repeat of a call whose outcome is unknown started a new attempt
};

Status StatusOf(Phase phase);
std::string_view NameOf(Phase phase);    // "DISPATCHING"
std::string_view NameOf(Status status);  // "PENDING"
std::string_view NameOf(Cause cause);    // "first_call"
std::optional<Phase> PhaseFromName(std::string_view name);
std::optional<Status> StatusFromName(std::string_view name);

// The transition table, the only place that knows which move is legal.
bool IsLegal(Phase from, Phase to);
// No further move without a new call or a human.
bool IsFinal(Phase phase);
// Being sent, or sent with an outcome that nobody knows.
bool IsOpen(Phase phase);
// False only where the backend provably did nothing, or nothing that still stands.
bool MayHaveEffect(Phase phase);

// One appended row about one operation. Every row repeats the identity of its operation, so one
// read tells the whole state.
struct Event {
  std::uint64_t id = 0;         // row number; assigned by the ledger
  std::uint64_t operation = 0;  // id of the operation's first event
  Digest key{};
  Digest base_key{};             // key of generation 0; set by the ledger
  Digest intent{};               // the key without its scope: finds the same intent elsewhere
  Digest args_hash{};            // fingerprint: what the key leaves out
  std::uint32_t generation = 0;  // how many operations of this key's window came before
  Phase phase = Phase::kNone;
  Cause cause = Cause::kNone;
  std::uint16_t attempt = 0;
  std::uint64_t epoch = 0;     // which start of the process wrote it; set by the ledger
  std::int64_t wall_ms = 0;    // set by the ledger
  std::int64_t window_ms = 0;  // dedupe window; 0: the key holds for the whole retention
  std::string tool, backend, caller, trace_id, flow, policy_version;
  std::string method, path;  // without query: a query may carry secrets
  std::string detail;        // for people, bounded
  std::string external_ref;
  int http_status = 0;       // of the backend's answer, 0 when there was none
  bool answer_kept = false;  // `answer` can be replayed
  HttpResponse answer;
  std::optional<RenderedRequest> settle;  // probe that asks whether the effect exists
  std::optional<RenderedRequest> undo;    // rendered when the outcome became durable

  Status status() const { return StatusOf(phase); }
};

}  // namespace recourse
