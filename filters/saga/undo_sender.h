// Sends one undo request: the attempt is remembered before its first byte, its outcome before
// anybody builds on it.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "filters/credentials/credentials.h"
#include "filters/ledger/ledger.h"
#include "filters/outcome_resolver.h"
#include "filters/saga/own_moves.h"
#include "filters/saga/record_with_retry.h"
#include "filters/saga/undo_plan.h"
#include "filters/tracing.h"
#include "filters/upstream.h"
#include "policy/model/policy.h"
#include "proxy/base/executor.h"

namespace recourse {

// The undo request of `step` as it would be sent now: rendered when the step succeeded, completed
// with its key and the credentials that the policy names. Fails with a line for operators
// when one of them cannot be read.
std::expected<HttpRequest, std::string> UndoRequest(const Event& step, const UndoRule* rule,
                                                    const Backend& backend,
                                                    const ReadSecret& read_secret);
// The same for people: no credential is shown.
HttpRequest UndoPreview(const Event& step, const UndoRule* rule, const Backend& backend);

struct UndoOutcome {
  enum class Kind : std::uint8_t {
    kDone,       // the step is COMPENSATED
    kNotNeeded,  // what it made is gone already: nothing was sent
    kAgain,      // after `pause`
    kStuck,      // no further try without a human
  };
  Kind kind = Kind::kStuck;
  std::string reason;
  Millis pause{};
};

class UndoSender {
 public:
  struct Parts {
    Ledger& ledger;
    Upstream& upstream;
    Executor& executor;
    const Clock& clock;
    ReadSecret read_secret;
    SpanSink* tracing = nullptr;  // null: traces are off
    RecordPause record_pause{};
    KeepOwn keep{};
    OutcomeResolver* settling = nullptr;  // for `then_probe`; null: nobody can be asked
  };
  explicit UndoSender(Parts parts) : parts_(std::move(parts)) {}

  // One try. `attempts_max` counts dispatches over the life of the undo; `by_human` allows what
  // only a human may decide: to try again what was refused or is unknown, and to restore over what
  // somebody else has written, as long as that is what he was shown. `earlier` is the undo's
  // operation, if it was tried before.
  Task<UndoOutcome> Try(const Event& step, std::shared_ptr<const Policy> policy, int attempts_max,
                        bool by_human, std::uint32_t jitter, std::uint64_t earlier = 0);
  // Of an undo that another process has made, or an earlier start of this one.
  void Recall(const Event& undo) { moves_.Note(undo); }

 private:
  // The step as a try sees it. What it points to outlives the try.
  struct Tried {
    const Event& step;
    std::shared_ptr<const Policy> policy;
    const Tool* tool;
    const UndoRule* rule;
    const Backend& backend;
    bool compares;                  // with what stands there now
    std::optional<Snapshot> shown;  // to the human who has it tried again
    std::uint32_t jitter;
    CallKeeper* keeper;  // of the answers
  };
  std::unique_ptr<UpstreamConnection> Open(const Tried& tried);
  Task<UndoOutcome> Send(const Tried& tried, Begun begun);
  // Why nothing is to be sent now; nullopt: it is. Sets If-Match in `fields`.
  Task<std::optional<UndoVerdict>> Compare(const Tried& tried, int attempt, bool is_resend,
                                           Headers& fields);
  Task<std::expected<Snapshot, Unread>> ReadState(const Tried& tried, int attempt);
  // What is known once the backend has said that it is undone.
  Task<UndoVerdict> ThenProbe(const Tried& tried, UndoVerdict verdict);
  // Of an undo whose outcome is unknown, and which is not to be sent again.
  Task<UndoOutcome> FindOut(const Tried& tried, Event unknown, std::string otherwise);
  // Of an undo that was sent, and whose answer was lost: the one write since is its own, so that
  // older steps find what they have left in the version `now`.
  void NoteOwnVersion(const Event& step, const Snapshot& now, UndoVerdict& verdict) const;
  // Of an undo that was taken on: whether it is done by now.
  Task<UndoOutcome> AskWhetherDone(const Tried& tried, Event taken_on);
  // That undo, if it was.
  Task<std::optional<Event>> TakenOn(const Tried& tried, std::uint64_t earlier);
  Task<Result<Answer>> Ask(const Tried& tried, HttpRequest request, int attempt);
  // `from` is the undo's phase now.
  Task<UndoOutcome> Record(const Event& undo, Phase from, const Tried& tried, UndoVerdict verdict,
                           Result<Answer> answer);
  UndoOutcome OutcomeOf(const Event& undo, const Tried& tried, const UndoVerdict& verdict,
                        const Result<Answer>& answer) const;

  const Parts parts_;
  OwnMoves moves_;
};

}  // namespace recourse
