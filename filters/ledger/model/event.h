// What the ledger remembers: events, the phases of an operation, and the one transition table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "filters/ledger/model/approval_facts.h"
#include "filters/ledger/model/standing.h"
#include "policy/model/ledger_rules.h"
#include "policy/model/principal.h"
#include "policy/template/template.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// Stored as numbers: never renumber.
enum class Phase : std::uint8_t {
  kNone = 0,  // nothing durable
  kClaimed = 1,
  kApproved = 2,
  kDenied = 3,
  kExpired = 4,
  kDispatching = 5,
  kUncertain = 6,
  kSucceeded = 7,
  kAnswerLost = 8,  // executed, answer incomplete
  kNotSent = 9,
  kRejected = 10,
  kProvenAbsent = 11,
  kCompensated = 12,
  kTombstone = 13,
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
  kCanceled = 13,       // shut down before anything was sent
  kResend = 14,         // a repeat of a call whose outcome is unknown started a new attempt
  kCarried = 15,        // moved on unchanged, because retention removes the rows before it
  kUndone = 16,         // its undo request went through
  kAsked = 17,          // it waits for a human
  kExpired = 18,        // nobody decided in time
  kPolicyChanged = 19,  // another policy came into force than the one that asked
  kFlowClosed = 20,     // its flow takes no further writes
  kApproved = 21,       // sent, as a human decided
  kTooLate = 22,        // a decision came after the one that counts
  kAsksInput = 23,      // the server asks for input before it acts
  kRejectedNow = 24,    // the backend answered with a rejection that need not last
  kOwnerLost = 25,      // the process that was sending it lives no more, or was taken for dead
};
inline constexpr Cause kLastCause = Cause::kOwnerLost;

// What enforce would have done with a call that observe mode let pass; stored as a number: never
// renumber.
enum class ObserveVerdict : std::uint8_t {
  kNone = 0,            // not a row of observe mode
  kFresh = 1,           // sent
  kWouldReplay = 2,     // answered from the ledger
  kWouldJoin = 3,       // kept waiting for the same call, which still ran
  kWouldConflict = 4,   // refused: same key, other arguments
  kWouldHold = 5,       // held for a human
  kWouldRefuse = 6,     // refused; `detail` says why
  kWouldBeUnknown = 7,  // not sent: the outcome of the same call was not known
  kWouldResend = 8,     // sent again under the same key, for the backend to de-duplicate
  kNotJudged = 9,       // its arguments were not seen whole
  kWouldAsk = 10,       // a human asked whether it is a repeat
};
inline constexpr int kObserveVerdictCount = 11;

Status StatusOf(Phase phase);
std::string_view NameOf(Phase phase);             // "DISPATCHING"
std::string_view NameOf(Status status);           // "PENDING"
std::string_view NameOf(Cause cause);             // "first_call"
std::string_view NameOf(ObserveVerdict verdict);  // "would_replay"
std::optional<Phase> PhaseFromName(std::string_view name);
std::optional<Status> StatusFromName(std::string_view name);

// The transition table, the only place that knows which move is legal.
bool IsLegal(Phase from, Phase to);
// No further move without a new call or a human.
bool IsFinal(Phase phase);
// Being sent, or sent with an outcome that nobody knows.
bool IsOpen(Phase phase);
// Not sent yet: it waits for a human, or was approved.
bool IsClaim(Phase phase);
// Something of ours will move it: a repeat waits for that.
inline bool IsAwaited(Phase phase) { return IsClaim(phase) || phase == Phase::kDispatching; }
// False only where the backend provably did nothing, or nothing that still stands.
bool MayHaveEffect(Phase phase);

// One appended row about one operation. Every row repeats the identity of its operation, so one
// read tells the whole state.
// What is kept of the resource that an operation changed, for its undo.
struct StateKept {
  RenderedRequest request;  // reads it, without the credentials of the call
  Snapshot before;
  Snapshot ours;  // what the operation left, as far as that is known or follows from its request
};
// About as much as its row takes for it.
std::size_t BytesOf(const StateKept& state);

// One attempt of an operation.
struct AttemptId {
  static AttemptId Of(const struct Event& event);

  std::uint64_t operation = 0;
  std::uint16_t attempt = 0;
  std::optional<Digest> key{};  // see IsMeant
  bool operator==(const AttemptId&) const = default;
};

// What is said of an operation names its key beside its number: since a database went back to an
// older state another call may have that number. Unset: whatever has the number is meant.
inline bool IsMeant(const std::optional<Digest>& key, const Digest& found) {
  return !key || *key == found;
}

struct Event {
  std::uint64_t id = 0;         // row number; assigned by the ledger
  std::uint64_t operation = 0;  // id of the operation's first event
  Digest key{};
  Digest base_key{};   // key of generation 0; set by the ledger
  Digest intent{};     // the key without its scope: finds the same intent elsewhere
  Digest args_hash{};  // fingerprint: what the key leaves out
  // Whose answer it may be shown; kNoPrincipal: what Recourse itself sent, or an earlier version.
  Principal principal = kNoPrincipal;
  // What it writes to: backend, path and query. Zeros: an earlier version wrote it, or it is a call
  // by name.
  Digest resource{};
  // What makes its answer true no more, and what it makes so. Of an event that was begun by an
  // earlier version only what the method tells.
  Standing stands{};
  UndoClass undo_class = UndoClass::kRead;  // of its tool when it began
  std::uint32_t generation = 0;             // how many operations of this key's window came before
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
  int http_status = 0;  // of the backend's answer, 0 when there was none
  // Observe mode only. Such an event is in a key space of its own and never answers a call.
  ObserveVerdict verdict = ObserveVerdict::kNone;
  std::uint64_t related = 0;  // the operation that this call repeats or contradicts; 0: none
  // A step of its flow (flow.h); `flow_name` is the policy's flow, empty: of none.
  bool is_step = false;
  bool flow_has_deadline = false;
  std::string flow_name;
  std::uint64_t undoes = 0;  // the operation whose effect this one undoes; 0: it is no undo
  // The backend and the key field with which it promised to de-duplicate the request that was sent;
  // 0: no such promise. Only the same promise allows the request to be sent again.
  std::uint64_t dedupe_domain = 0;
  // The agent's Idempotency-Key field at the first attempt, byte for byte; empty: it had none, and
  // the backend saw the operation's own key. Every later attempt has the same. nullopt: an earlier
  // version wrote it, or the backend knows no keys and was given none.
  std::optional<std::string> key_field;
  bool answer_kept = false;  // `answer` can be replayed
  // Read from a row whose key is not at hand: path, external_ref, settle, undo and answer are
  // missing, and `detail` says which key would open them.
  bool is_locked = false;
  HttpResponse answer;
  std::optional<RenderedRequest> settle;  // probe that asks whether the effect exists
  std::optional<RenderedRequest> undo;    // rendered when the outcome became durable
  // The exact request to `backend` that was or will be sent, where whoever began the operation gave
  // one; sealed like the rest. Every row has it until the outcome is known, none after that. One
  // that cannot be kept (CanBeKept) is left out, which the row says.
  std::optional<RenderedRequest> request;
  bool request_left_out = false;
  std::optional<ApprovalFacts> approval;  // of an operation that needed humans
  // Asks the backend how the task stands that it has made of the call (Codec::AskAboutTask); as
  // long as the outcome is not known.
  std::optional<RenderedRequest> task;
  // Of a write that `before` was read for, until it is undone or had no effect.
  std::optional<StateKept> state;
  // Of an undo that was held back: what stood there in place of what its step had left.
  std::optional<Snapshot> found;

  Status status() const { return StatusOf(phase); }
};

inline AttemptId AttemptId::Of(const Event& event) {
  return {event.operation, event.attempt, event.key};
}

// What a further attempt must have for its key_field; nullopt: that is not known. Whatever has an
// intent was named by no agent, so its key was the operation's own in every version.
inline std::optional<std::string> KeyFieldOf(const Event& last) {
  const bool is_own = !last.key_field && last.dedupe_domain != 0 && last.intent != Digest{};
  return is_own ? std::optional<std::string>(std::in_place) : last.key_field;
}

// False: larger than the ledger keeps of a request, kStoredRequestBodyBytesMax for its body and
// kRenderedRequestBytesMax for the rest. Pure.
bool CanBeKept(const RenderedRequest& request);

// A policy that comes into force. Durable before the first event made under it.
struct PolicyChange {
  // Stored as numbers: never renumber.
  enum class Cause : std::uint8_t { kStart = 1, kReload = 2 };
  Cause cause = Cause::kStart;
  std::string version;  // as in Event::policy_version
  Digest digest{};      // over the policy's files
};

}  // namespace recourse
