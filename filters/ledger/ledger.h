// The durable store of operations and events. Callers speak in meanings; every verb is atomic.
//
// Verbs run in submission order. A coroutine resumes on the executor it names, never on the
// ledger's own thread. After a failed commit the ledger latches: every write verb fails with
// kLedgerUnavailable until the process restarts, reads go on.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "filters/ledger/ledger_copy.h"
#include "filters/ledger/model/approval.h"
#include "filters/ledger/model/event.h"
#include "filters/ledger/model/flow.h"
#include "filters/ledger/model/waiting_clients.h"
#include "filters/ledger/older_recipe.h"
#include "filters/ledger/seal/key_ring.h"
#include "policy/model/ledger_rules.h"
#include "proxy/base/clock.h"
#include "proxy/base/error.h"
#include "proxy/base/executor.h"
#include "proxy/base/send_permit.h"
#include "proxy/base/task.h"

namespace recourse {

// What must be asked before a call may be sent.
struct ApprovalAsk {
  int needed = 1;
  std::vector<std::string> by;
  Millis expires{};
  Digest policy{};            // of the policy that asks
  std::string why;            // for people
  std::uint64_t repeats = 0;  // the operation that it looks like a repeat of; 0: that is not it
  // What a human approved may be compared with what comes after its server asked for more. Not so
  // where arguments are left out of the comparison (`ignore`).
  bool may_go_on = true;
};

// What must be asked if the call looks like a repeat that may not be one.
struct SuspicionAsk {
  ApprovalAsk ask;  // `why` and `repeats` are the ledger's to say
  // As it would be sent. Unset: it is too large to be kept.
  std::optional<RenderedRequest> request{};
};

// A call that wants to become, or to repeat, an operation.
struct NewOperation {
  // Identity, names, trace, settle request: copied into the event. `key` is that of generation 0.
  // With a `verdict` the call is one of observe mode, which is sent whatever the ledger finds:
  // Begin always answers kFresh, with the verdict and `related` as enforce would have decided. The
  // verdict given here stands when enforce would have found nothing in the way.
  Event event;
  // The intent that the agent named, if it has the form of a key of ours, which every answer tells:
  // where it is that of an operation of the same caller and tool, that one is meant.
  std::optional<Digest> named{};
  // Set when the scope is wider than one trace and the agent named no intent: a finished operation
  // answers repeats only this long after its outcome; then the same key starts a new generation.
  std::optional<Millis> dedupe_window;
  // Recognized by key or intent only as a retry: see across_window.
  bool is_retry_only = false;
  // The policy's identity names the intent: an equal call repeats one that runs although the client
  // of that one still waits.
  bool has_identity = false;
  // How long after its outcome an operation that its client was not answered, or that is unknown,
  // is repeated by a call that shares no scope with it.
  Millis across_window = limits::kAcrossWindow;
  // The agent did not name it: a later write may make its stored answer untrue (Event::stands).
  // Then its repeat is executed, if its client had that answer or it is a PUT or DELETE.
  bool may_be_superseded = false;
  // Names under which the call would have begun earlier, where those differ. What is found there
  // and not over keeps the call from being made twice.
  std::vector<OlderRecipe> older{};
  // The client that waits for the call, from now on for what it became or joined; null: nobody
  // does. Outlives Begin.
  ClientWait* wait = nullptr;
  // What to do when another operation of the same intent, under another key, is found. kNever for
  // scopes other than trace.
  AcrossTraces across_traces = AcrossTraces::kNever;
  OnMismatch on_mismatch = OnMismatch::kReject;
  // How long a refusal is replayed before a repeat is a new attempt; none: no repeat is answered
  // with it, wherever the wall clock went.
  std::optional<Millis> failed_ttl;
  // Attempts that were refused or not sent do not count as dispatches; so many of them a minute
  // (limits::kRefusedPerMinute).
  bool refusals_are_free = false;
  // The backend de-duplicates on our key: a repeat settles an unknown, if that was sent with the
  // same promise (Event::dedupe_domain).
  bool may_resend = false;
  // What was refused is begun anew under another key, where this one can fail only.
  bool new_key_after_failure = false;
  Millis key_lives = Millis::max();  // so long after the first attempt, if all clocks agree
  Quota quota;                       // of the caller
  int attempts_max = 10;             // dispatches of one operation over its life
  // If it would be sent, the state that it changes has to be read first and be in `event.state`:
  // Begin answers kNeedsBefore. An attempt over one of unknown outcome keeps what was read for
  // that.
  bool wants_before = false;
  // Of the step `event.operation`: sent although its flow is fenced, to find out whether it had its
  // effect. Begin fails with kInternal unless its outcome is unknown.
  bool passes_fence = false;
  // Instead of being sent it waits for humans: CLAIMED, with `event.request`. Not what continues an
  // approved call whose server asked for input (Cause::kAsksInput), while that approval stands.
  std::optional<ApprovalAsk> approval{};
  // Where on_mismatch or across_traces say kAsk: such a call becomes an operation of its own that
  // waits for humans. Unset: Begin answers kSuspected.
  std::optional<SuspicionAsk> suspicion{};
  // The operation that was approved and is to be sent now; 0: none. `event` then gives the settle
  // request only, the rest is as it was approved. Begin answers kFresh, or kHeld with what became
  // of it: it is sent once, in time, under the policy that asked, which is `policy_in_force`.
  std::uint64_t approved = 0;
  std::optional<Digest> approved_key{};  // of that; see IsMeant
  Digest policy_in_force{};
};

// Tells when the DISPATCHING row of a fresh operation is durable. Single-threaded: completed and
// awaited on the caller's executor.
class PendingCommit {
 public:
  // Fails with kLedgerUnavailable. Nothing may be sent before this succeeded. One waits at a time.
  Task<Result<void>> Durable() { co_return co_await done_.Wait(); }
  // `permit` is asked before each piece of the attempt is sent; null: nobody else could take the
  // attempt over.
  void Complete(Result<void> result, std::shared_ptr<SendPermit> permit = nullptr) {
    is_durable_ = result.has_value();
    permit_ = std::move(permit);
    done_.Set(result);
  }
  bool is_durable() const { return is_durable_; }
  // After Durable().
  SendPermit* permit() const { return permit_.get(); }

 private:
  bool is_durable_ = false;
  std::shared_ptr<SendPermit> permit_;
  Promise<Result<void>> done_;
};

struct Begun {
  enum class Kind : std::uint8_t {
    kFresh,      // dispatch it: `event` is DISPATCHING, `commit` says when it is durable
    kRunning,    // the same call is being dispatched: Join
    kReplay,     // finished: `event` holds the outcome (SUCCEEDED, ANSWER_LOST or REJECTED)
    kUnknown,    // UNCERTAIN: settle it or say so
    kConflict,   // same key, other arguments
    kSuspected,  // a probable repeat, which a human ought to judge, and nobody is to be asked
    kCompensated,
    kExpired,     // tombstone: `event` has little more than the operation's id
    kExhausted,   // attempts_max reached
    kTooOften,    // refused or not sent so often that it has to wait: `again_in`
    kFlowClosed,  // a new dispatch in a flow that is fenced: `flow` is its number
    kHeld,        // waits for a human, or was approved; with `commit` it began to wait now
    kSuperseded,  // executed, but a later write has made that untrue, and its client may not have
                  // been answered. Of an undo: what it would undo is gone already
    kOtherCredentials,  // made by somebody with other credentials: `event` is not to be shown
    kOtherKey,     // would be sent, but not under the key of the first attempt: its key_field is
                   // that of `event`. Begin again with that one
    kNeedsBefore,  // would be sent, see wants_before: nothing is remembered yet
  };
  Kind kind = Kind::kFresh;
  Event event;  // latest event of the operation found or begun
  std::shared_ptr<PendingCommit> commit;
  std::uint64_t flow = 0;
  // A client has had `event`'s answer, or this one is not to count for that: it asks for another
  // state to be there before, and a repeat of it would be taken for another call.
  bool is_answered = false;
  // kReplay: of an answered one, how many there were since the process began, with this one.
  int replays = 0;
  Millis again_in{};         // kTooOften
  bool is_key_over = false;  // kUnknown: it would be sent again, but its key has had its time
  // Of event.related, if that is another operation: the attempt that the call was found to repeat.
  std::uint16_t related_attempt = 0;
  Digest related_key{};  // of that operation
};

// A move of one operation. `from` and `attempt` are compared first: an answer of attempt 1 never
// moves attempt 2.
struct Transition {
  // Of the operation that `last` is about, as it is there.
  static Transition Of(const Event& last);
  // Of an attempt of which nothing was sent: what an earlier one has done is as unknown as before.
  static Transition Unsent(const Event& dispatching, std::string why);

  std::uint64_t operation = 0;
  std::optional<Digest> key{};  // see IsMeant
  Phase from = Phase::kDispatching;
  std::uint16_t attempt = 0;
  Phase to = Phase::kUncertain;
  Cause cause = Cause::kNone;
  std::string detail;
  std::string external_ref;
  int http_status = 0;
  bool answer_kept = false;
  HttpResponse answer;
  std::optional<RenderedRequest> undo;
  // What the effect has made, and what undoes it: added to Event::stands.
  std::vector<Mark> made{}, ended_by{};
  Mark undo_resource{};
  // Moves the operation's flow in the same commit, if it is in `from` and this is a step of it, or
  // undoes one.
  struct FlowEffect {
    FlowPhase to = FlowPhase::kBreaking;
    FlowCause cause = FlowCause::kNone;
    std::string reason;
    FlowPhase from = FlowPhase::kOpen;
  };
  std::optional<FlowEffect> flow{};
  std::optional<RenderedRequest> task{};  // see Event::task
  std::optional<Snapshot> ours{};         // see StateKept; unset: as it was planned
  std::optional<Snapshot> found{};        // see Event::found
  bool keeps_settle = false;              // its undo is followed by that question
  bool drops_undo = false;                // what was rendered with the call must not be sent
  // Whoever waits for it waits no longer than that for a database that does not answer, is told
  // that its outcome is unknown, and it is written all the same. Unset: as long as it takes.
  std::optional<MonoTime> told_by{};
  // The DISPATCHING event that this outcome follows, just as Begin gave it: spares the ledger the
  // reading of its row, and is taken away. It outlives Record. Null, or not the operation's last
  // event: the row is read.
  Event* dispatching = nullptr;
};

inline Transition Transition::Of(const Event& last) {
  Transition transition;
  transition.operation = last.operation;
  transition.key = last.key;
  transition.from = last.phase;
  transition.attempt = last.attempt;
  return transition;
}

inline Transition Transition::Unsent(const Event& dispatching, std::string why) {
  Transition transition = Of(dispatching);
  const bool is_resend = dispatching.cause == Cause::kResend;
  transition.to = is_resend ? Phase::kUncertain : Phase::kNotSent;
  transition.cause = Cause::kCanceled;
  transition.detail = std::move(why);
  return transition;
}

// What was asked or said is about another operation than the one that has its number now.
inline Error OtherCallError() {
  return Error(ErrorCode::kInternal, "the ledger does not have this call any more",
               Delivery::kUncertain);
}

struct EventFilter {
  std::optional<std::string> trace_id{}, tool{};
  std::optional<Status> status{};
  std::optional<Phase> phase{};
  std::optional<std::uint64_t> operation{};
  std::optional<std::string> flow{};
  std::uint64_t after = 0;                                          // events with a larger id
  std::uint64_t up_to = std::numeric_limits<std::uint64_t>::max();  // and none after this one
  std::size_t limit = 100;
  std::size_t back = 0;       // not 0: the last so many of these rows alone, of whatever kind
  bool with_answers = false;  // load answers whole; a page then ends at kAdminPageBytesMax
  // Moves of flows too: of those named by `flow`, or that have a step or an undo of the trace. None
  // where tool, status, phase or operation are asked for.
  bool with_flows = false;
};
// A move of a flow, as one row of the log tells it.
struct FlowMoved {
  std::uint64_t id = 0;  // row number
  std::int64_t wall_ms = 0;
  std::uint64_t number = 0;  // of the flow
  std::string flow, caller, flow_name, policy_version;
  FlowPhase phase = FlowPhase::kNone;
  FlowCause cause = FlowCause::kNone;
  std::string reason;  // for people
  std::size_t steps = 0, undone = 0;
  std::size_t events_before = 0;  // on its page: rows of other streams have no order by their ids
};
struct EventPage {
  std::vector<Event> events;     // ascending id; answers only if asked for
  std::vector<FlowMoved> flows;  // ascending id; only if asked for
  bool more = false;
  std::uint64_t last_id = 0;  // of the page; the next one begins after it
  std::uint64_t older = 0;    // with `back`: the last row before those; 0: there is none
};

struct VerifyReport {
  bool ok = false;
  // What holds the ledger did not answer: nothing is known of it, and `problem` alone says so.
  bool is_away = false;
  std::uint64_t first_id = 1;  // retention has removed the rows before it
  std::string base;            // hex hash of the row before first_id; empty: there never was one
  std::uint64_t rows = 0;      // checked
  std::uint64_t last_id = 0;
  std::string head;     // hex hash of the last row
  std::string problem;  // one line: names the first bad row
  // Of that problem: which row, and which check it failed.
  std::uint64_t bad_row = 0;
  std::string check;  // format, number, chain, payload, seal, key, head; empty: none
};

struct LedgerStats {
  std::uint64_t first_id = 1, tombstones = 0;
  std::uint64_t locked_carried = 0;   // rows that retention moved on unread: their key is missing
  std::int64_t oldest_row_ms = 0;     // lived time since the oldest row was written, at least
  std::int64_t retention_lag_ms = 0;  // how much of it is over the retention
  std::uint64_t last_id = 0, operations = 0, uncertain = 0, running = 0, commits = 0, rows = 0;
  std::uint64_t used_bytes = 0, map_bytes = 0;
  std::uint64_t free_bytes = 0;                   // can be written for sure
  std::uint64_t reserve_bytes = 0;                // of them kept for the outcomes of what is open
  bool is_full = false;                           // new writes are refused for want of space
  bool is_index_failing = false;                  // the key index grows, and cannot be written
  bool is_index_rebuilt = false;                  // this start made the key index from the log
  std::array<std::uint64_t, 4> quota_refusals{};  // by QuotaKind
  std::uint64_t epoch = 0;
  std::int64_t oldest_pending_ms = 0;  // wall time of the oldest DISPATCHING or UNCERTAIN; 0: none
  bool latched = false;
  bool restored = false;  // from a backup, and not accepted yet: new operations are refused
  bool is_away = false;   // a database that holds it does not answer: new operations are refused
  std::string refused{};  // why such a database takes no new operations, although it answers
  // Wall time at which such a database said what is counted of all its processes; unset: it has
  // not, and nothing is known of that.
  std::optional<std::int64_t> counted_ms{};
  std::string not_opened{};  // why this ledger could not be opened (MakeUnopenedLedger); else empty
  Digest identity{};         // which ledger this is
  Digest head{};             // hash of the row `last_id`
  std::size_t flows_open = 0, flows_breaking = 0;   // breaking: or being undone
  std::size_t flows_parked = 0, flows_stopped = 0;  // stopped (IsStopped) ones are not parked
  std::size_t approvals_pending = 0;       // operations that wait for a human, or were approved
  std::int64_t flows_parked_since_ms = 0;  // wall time of the oldest parked one's parking; 0: none
};

class Ledger {
 public:
  virtual ~Ledger() = default;

  // Decides and, when fresh, starts to make DISPATCHING durable. Returns as soon as the decision
  // stands. Fails with kLedgerUnavailable, kLedgerFull, kQuotaExceeded or kOverloaded; with
  // Delivery::kNotSent only when no earlier attempt of the call can have had an effect.
  virtual Task<Result<Begun>> Begin(NewOperation operation, Executor& executor) = 0;

  // Durable when it returns; gives the appended event. Fails with kInternal when the operation is
  // not in `from` at `attempt`, or the move is not in the transition table: nothing is written.
  // When an undo succeeds, the operation that it undoes becomes COMPENSATED in the same commit.
  virtual Task<Result<Event>> Record(Transition transition, Executor& executor) = 0;

  // Waits until the operation is neither waiting for a human nor DISPATCHING and gives its latest
  // event; nullopt when it still is at `deadline`.
  virtual Task<Result<std::optional<Event>>> Join(std::uint64_t operation, MonoTime deadline,
                                                  Executor& executor) = 0;

  // The operation's latest event, whatever it waits for.
  virtual Task<Result<Event>> Read(std::uint64_t operation, Executor& executor) = 0;

  // Durable when it returns. Fails with kInternal when there is no such operation,
  // kLedgerUnavailable, kOverloaded; a ruling that changes nothing is no failure.
  virtual Task<Result<ApprovalOutcome>> Decide(ApprovalOrder order, Executor& executor) = 0;

  // Operations that wait for a human or were approved, with id > after, ascending, at most `limit`.
  virtual Task<Result<std::vector<PendingApproval>>> Claims(std::uint64_t after, std::size_t limit,
                                                            Executor& executor) = 0;
  // Of these what this process has to see to: it wrote them last, or has taken them over from one
  // that is lost.
  virtual Task<Result<std::vector<PendingApproval>>> OwnClaims(std::uint64_t after,
                                                               std::size_t limit,
                                                               Executor& executor) {
    return Claims(after, limit, executor);
  }

  // The answer of that attempt reached its client whole: the same intent under another trace is a
  // new call from now on, unless a later attempt has begun: nobody has seen that one's answer.
  // Durable soon, not at once: a crash within kAnsweredFlush forgets it, which errs towards replay.
  // Thread-safe, does not wait.
  virtual void MarkAnswered(AttemptId answered) = 0;
  // Takes that back: the client went before it had read what its kernel had taken for it. Does not
  // wait either; a crash before it is durable errs towards a new call.
  virtual void MarkUnread(AttemptId answered) = 0;

  // Operations of this process in DISPATCHING or UNCERTAIN with id > after, ascending, at most
  // `limit`.
  virtual Task<Result<std::vector<Event>>> Open(std::uint64_t after, std::size_t limit,
                                                Executor& executor) = 0;

  // Moves a flow; durable when it returns; gives the flow as it is then. Fails with kInternal when
  // there is no such flow in `from`, the move is not in its table, or what it says of the steps is
  // not so: to UNDOING none may be open, to UNDONE none may still need an undo.
  virtual Task<Result<FlowState>> MoveFlow(FlowMove move, Executor& executor) = 0;

  // The flow of that name that is not over; nullopt: there is none.
  virtual Task<Result<std::optional<FlowState>>> FindOpenFlow(std::string caller, std::string flow,
                                                              Executor& executor) = 0;

  // Flows that are not over, with number > after, ascending, at most `limit`.
  virtual Task<Result<std::vector<FlowState>>> Flows(std::uint64_t after, std::size_t limit,
                                                     Executor& executor) = 0;
  // Of these what this process has to see to: it moved them last, watches their deadline, or has a
  // step of unknown outcome in them.
  virtual Task<Result<std::vector<FlowState>>> OwnFlows(std::uint64_t after, std::size_t limit,
                                                        Executor& executor) {
    return Flows(after, limit, executor);
  }

  // Remembers a policy that comes into force; durable when it returns. Blocking: never call it from
  // an I/O thread. Thread-safe. Fails with kLedgerUnavailable or kOverloaded.
  virtual Result<void> RecordPolicy(const PolicyChange& change) = 0;

  // For operators. Blocking: call from an admin thread, never from an I/O thread. Thread-safe.
  virtual Result<EventPage> List(const EventFilter& filter) = 0;
  virtual Result<std::optional<Event>> Find(std::uint64_t id) = 0;  // with its answer
  // A flow by its number, also one that is over: then read back from its events, which takes as
  // long as reading the log from its first event on. nullopt: none, or retention removed it.
  virtual Result<std::optional<FlowState>> FindFlow(std::uint64_t number) = 0;
  // The newest flows, over or not, ascending by number, at most `limit`. Reads the whole log.
  virtual Result<std::vector<FlowState>> NewestFlows(std::size_t limit) = 0;
  virtual VerifyReport Verify() = 0;
  virtual LedgerStats Stats() = 0;
  // The same, but for what is counted of all processes of a shared ledger: asks nobody for it, so
  // that it never blocks.
  virtual LedgerStats OwnStats() { return Stats(); }
  // How long things are kept; until it is called nothing is ever removed. Thread-safe.
  virtual void SetRule(const LedgerRule& rule) = 0;
  // Begins a backup: a consistent copy of the ledger as it is now, while it goes on. The copy ends
  // before the ledger does. Fails with a line for people.
  virtual std::expected<std::unique_ptr<LedgerCopy>, std::string> StartCopy() {
    return std::unexpected("this ledger lives in memory and cannot be copied");
  }
  // Somebody has looked at what was done after the backup that this ledger was restored from: new
  // operations are admitted from now on, also after a restart. Does nothing otherwise. Blocking,
  // thread-safe. Fails with a line for people.
  virtual std::expected<void, std::string> AcceptRestoredBackup() { return {}; }
  // Seconds per commit, called on the ledger's thread. Set once before the first verb.
  virtual void OnCommit(std::function<void(double seconds, std::size_t rows)> observer) = 0;
  // Called each time when what another process had open, and left by its death, has become this
  // one's, or something was written of which nobody here was told (Transition::told_by): Open,
  // OwnClaims and OwnFlows then have more. On a thread of the ledger's. Set once; not asked by a
  // ledger of one process.
  virtual void OnTakeOver(std::function<void()> /*told*/) {}
};

// What a ledger holds already, for whoever decides whether secrets may be made anew.
struct LedgerFacts {
  bool has_events = false;
  std::optional<KeyName> sealed_with{};  // the newest event's key; nullopt: none, or it is in clear
};
struct LedgerSecrets {
  std::shared_ptr<const LedgerKeys> keys;
  // Tells the secret that the operations' keys are made with from any other. The ledger remembers
  // the first it is given and refuses to open with another.
  std::string install_id;
};

// What must be there at a start, by --expect-ledger: at least `rows` rows and, when `head` is set,
// row number `rows` with that hash. Finds a lost volume and a return to an older copy.
struct ExpectedLedger {
  std::uint64_t rows = 0;  // 0: an empty directory becomes a new ledger
  std::optional<Digest> head{};
};

// Stands where a ledger could not be opened because of `why`, so that observe mode can pass traffic
// all the same: nothing is recorded, every verb fails with kLedgerUnavailable, and it is latched.
std::unique_ptr<Ledger> MakeUnopenedLedger(std::string why);

}  // namespace recourse
