// The durable store of operations and events. Callers speak in meanings; every verb is atomic.
//
// Verbs run in submission order. A coroutine resumes on the executor it names, never on the
// ledger's own thread. After a failed commit the ledger latches: every write verb fails with
// kLedgerUnavailable until the process restarts, reads go on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "filters/ledger/event.h"
#include "policy/policy.h"
#include "proxy/base/clock.h"
#include "proxy/base/error.h"
#include "proxy/base/executor.h"
#include "proxy/base/task.h"

namespace recourse {

// A call that wants to become, or to repeat, an operation.
struct NewOperation {
  // Identity, names, trace, settle request: copied into the event. `key` is that of generation 0.
  Event event;
  // Set when the scope is wider than one trace and the agent named no intent: a finished operation
  // answers repeats only this long after its outcome; then the same key starts a new generation.
  std::optional<Millis> dedupe_window;
  // What to do when another operation of the same intent, under another key, is found. kNever for
  // scopes other than trace.
  AcrossTraces across_traces = AcrossTraces::kNever;
  OnMismatch on_mismatch = OnMismatch::kReject;
  Millis failed_ttl{};      // how long a refusal is replayed before a repeat is a new attempt
  bool may_resend = false;  // the backend de-duplicates on our key: a repeat settles an unknown
  int attempts_max = 10;    // dispatches of one operation over its life
};

// Tells when the DISPATCHING row of a fresh operation is durable. Single-threaded: completed and
// awaited on the caller's executor.
class PendingCommit {
 public:
  // Fails with kLedgerUnavailable. Nothing may be sent before this succeeded. Await once.
  Task<Result<void>> Durable() { co_return co_await done_.Wait(); }
  void Complete(Result<void> result) { done_.Set(result); }

 private:
  Promise<Result<void>> done_;
};

struct Begun {
  enum class Kind : std::uint8_t {
    kFresh,      // dispatch it: `event` is DISPATCHING, `commit` says when it is durable
    kRunning,    // the same call is being dispatched: Join
    kReplay,     // finished: `event` holds the outcome (SUCCEEDED, ANSWER_LOST or REJECTED)
    kUnknown,    // UNCERTAIN: settle it or say so
    kConflict,   // same key, other arguments
    kSuspected,  // policy asks a human about a probable repeat
    kCompensated,
    kExpired,    // tombstone
    kExhausted,  // attempts_max reached
  };
  Kind kind = Kind::kFresh;
  Event event;  // latest event of the operation found or begun
  std::shared_ptr<PendingCommit> commit;
};

// A move of one operation. `from` and `attempt` are compared first: an answer of attempt 1 never
// moves attempt 2 (semantics 2.6).
struct Transition {
  std::uint64_t operation = 0;
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
};

struct EventFilter {
  std::optional<std::string> trace_id{}, tool{};
  std::optional<Status> status{};
  std::optional<Phase> phase{};
  std::optional<std::uint64_t> operation{};
  std::uint64_t after = 0;  // events with a larger id
  std::size_t limit = 100;
};
struct EventPage {
  std::vector<Event> events;  // ascending id; answers' bodies are not loaded
  bool more = false;          // next page: after = events.back().id
};

struct VerifyReport {
  bool ok = false;
  std::uint64_t rows = 0;
  std::uint64_t last_id = 0;
  std::string head;     // hex hash of the last row
  std::string problem;  // names the first bad row
};

struct LedgerStats {
  std::uint64_t last_id = 0, operations = 0, uncertain = 0, running = 0, commits = 0, rows = 0;
  std::uint64_t used_bytes = 0, map_bytes = 0;
  std::uint64_t epoch = 0;
  std::int64_t oldest_pending_ms = 0;  // wall time of the oldest DISPATCHING or UNCERTAIN; 0: none
  bool latched = false;
};

class Ledger {
 public:
  virtual ~Ledger() = default;

  // Decides and, when fresh, starts to make DISPATCHING durable. Returns as soon as the decision
  // stands. Fails with kLedgerUnavailable or kOverloaded; with Delivery::kNotSent only when no
  // earlier attempt of the call can have had an effect.
  virtual Task<Result<Begun>> Begin(NewOperation operation, Executor& executor) = 0;

  // Durable when it returns; gives the appended event. Fails with kInternal when the operation is
  // not in `from` at `attempt`, or the move is not in the transition table: nothing is written.
  virtual Task<Result<Event>> Record(Transition transition, Executor& executor) = 0;

  // Waits until the operation leaves DISPATCHING and gives its latest event; nullopt when it still
  // runs at `deadline`.
  virtual Task<Result<std::optional<Event>>> Join(std::uint64_t operation, MonoTime deadline,
                                                  Executor& executor) = 0;

  // The answer reached its client whole: the same intent under another trace is a new call from now
  // on. Durable soon, not at once: a crash within kAnsweredFlush forgets it, which errs towards
  // replay. Thread-safe, does not wait.
  virtual void MarkAnswered(std::uint64_t operation) = 0;

  // Operations in DISPATCHING or UNCERTAIN with id > after, ascending, at most `limit`.
  virtual Task<Result<std::vector<Event>>> Open(std::uint64_t after, std::size_t limit,
                                                Executor& executor) = 0;

  // For operators. Blocking: call from an admin thread, never from an I/O thread. Thread-safe.
  virtual Result<EventPage> List(const EventFilter& filter) = 0;
  virtual Result<std::optional<Event>> Find(std::uint64_t id) = 0;  // with its answer
  virtual VerifyReport Verify() = 0;
  virtual LedgerStats Stats() = 0;
  // Seconds per commit, called on the ledger's thread. Set once before the first verb.
  virtual void OnCommit(std::function<void(double seconds, std::size_t rows)> observer) = 0;
};

// Opens or creates the ledger in `directory` (created with mode 0700). Runs recovery: lock, check
// of the tail of the hash chain, new epoch, DISPATCHING -> UNCERTAIN (cause crash), key index.
// Fails with one line for people that says what is wrong and what to do.
struct LmdbLedgerOptions {
  std::string directory;
  std::uint64_t map_bytes = std::uint64_t{64} << 30;  // address space, not disk
};
std::expected<std::unique_ptr<Ledger>, std::string> OpenLmdbLedger(const LmdbLedgerOptions& options,
                                                                   const Clock& clock);

// Same meaning, nothing durable; decides and completes inside the call, on the caller's thread, so
// that a test controls every step. Joins end when the operation moves or `clock` passes their
// deadline and any other verb is called.
std::unique_ptr<Ledger> MakeMemoryLedger(const Clock& clock);

}  // namespace recourse
