// Finds out by the backend's own de-duplication what became of a step: its stored request is sent
// once more under the same key. Only for steps of broken flows: what nobody wants any more must not
// take effect late, unless it is undone right after.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "filters/credentials/credentials.h"
#include "filters/ledger/ledger.h"
#include "filters/saga/record_with_retry.h"
#include "filters/tracing.h"
#include "filters/upstream.h"
#include "policy/model/policy.h"
#include "proxy/base/executor.h"

namespace recourse {

// Why the request of an unknown step must not be sent again; nullopt: it may. Empty where there is
// nothing to say: its backend never knew keys. `began_under` is the policy of the step's version or
// nullptr, `in_force` the one of today: both have to name the backend and key field that the
// request was sent under. Pure.
std::optional<std::string> ObjectionToResend(const Event& unknown, const Policy* began_under,
                                             const Policy* in_force);

struct ResendOutcome {
  enum class Kind : std::uint8_t {
    kSettled,  // read the step again
    kAgain,    // after `pause`
    kStuck,    // no further try without a human
  };
  Kind kind = Kind::kStuck;
  std::string reason;
  Millis pause{};
};

class StepResender {
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
  };
  explicit StepResender(Parts parts) : parts_(std::move(parts)) {}

  // One try for a step to which ObjectionToResend has none. DISPATCHING is durable before the first
  // byte, what the answer proves before this returns: the step's undo request is then stored with
  // it. `attempts_max` counts dispatches over the life of the step. `credentials` is the policy
  // whose credentials for undo, and for approved calls, go with the request.
  Task<ResendOutcome> Try(Event unknown, std::shared_ptr<const Policy> policy,
                          std::shared_ptr<const Policy> credentials, int attempts_max,
                          std::uint32_t jitter);

 private:
  // `request` is null when it cannot be completed.
  Task<Result<Answer>> Send(const Begun& begun, OwnRequest told, const Tool& tool,
                            const HttpRequest* request, CallKeeper* keeper);

  const Parts parts_;
};

}  // namespace recourse
