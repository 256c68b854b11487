// Sends one undo request: the attempt is remembered before its first byte, its outcome before
// anybody builds on it.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "filters/credentials.h"
#include "filters/ledger/ledger.h"
#include "filters/saga/record_surely.h"
#include "filters/saga/undo_plan.h"
#include "filters/tracing.h"
#include "filters/upstream.h"
#include "policy/policy.h"
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
    Tracing* tracing = nullptr;  // null: traces are off
    RecordPause record_pause{};
    KeepOwn keep{};
  };
  explicit UndoSender(Parts parts) : parts_(std::move(parts)) {}

  // One try. `attempts_max` counts dispatches over the life of the undo; `by_human` allows what
  // only a human may decide: to try again what was refused or is unknown.
  Task<UndoOutcome> Try(const Event& step, std::shared_ptr<const Policy> policy, int attempts_max,
                        bool by_human, std::uint32_t jitter);

 private:
  Task<UndoOutcome> Send(const Event& step, std::shared_ptr<const Policy> policy,
                         const UndoRule* rule, const Backend& backend, Begun begun,
                         CallKeeper* keeper, std::uint32_t jitter);
  Task<UndoOutcome> Record(const Event& undo, const Tool* tool, UndoVerdict verdict,
                           Result<Answer> answer, std::uint32_t jitter);

  const Parts parts_;
};

}  // namespace recourse
