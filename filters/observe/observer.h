// Observe mode: a write goes to its backend as it came, and beside the exchange is written down
// what enforce would have done with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "filters/filter.h"
#include "filters/key/operation_request.h"
#include "filters/ledger/ledger.h"
#include "filters/observe/arrival_order.h"
#include "filters/observe/broken_flows.h"
#include "filters/observe/call_differences.h"
#include "policy/model/call_refusal.h"
#include "proxy/base/crypto/sha256.h"
#include "proxy/base/random.h"

namespace recourse {

// One write of observe mode. Belongs to one I/O thread, and to the exchange and its Observer
// together: it outlives both.
struct ObservedCall {
  // Set before Watch, and not changed until it has returned, but for the end. request.body means
  // something only when `is_whole`.
  RequestContext context;
  std::optional<CallRefusal> refusal;  // enforce would have refused it before reading its arguments
  bool is_whole = false;               // the whole body is in context.request.body

  // Set before Observer::End.
  Result<Answer> result = std::unexpected(
      Error(ErrorCode::kNotSent, "nothing was sent to the backend", Delivery::kNotSent));
  bool is_delivered = false;  // the answer reached the client whole

  // Set by Watch.
  ObserveVerdict verdict = ObserveVerdict::kNone;
  std::string reason;       // of a verdict kWouldRefuse: a slug, and what it means here
  std::uint64_t event = 0;  // id of the latest event; 0: none

  // The Observer's own.
  Promise<bool> ended;
  std::shared_ptr<ObservedOrder::Place> place;
};

// Keys of observe mode are made for it alone: what it saw never answers a call of enforce, and what
// enforce did never explains a call of observe mode.
DerivedKey ForObserving(DerivedKey key);

// What enforce makes of the call before it looks into the ledger: the operation to begin, with the
// verdict that stands if the ledger finds nothing in the way.
PreparedCall Foretell(const ObservedCall& call, const HmacKey& secret, Random& random);

// Thread-safe; one serves all I/O threads.
class Observer {
 public:
  // What it refers to outlives it.
  Observer(Ledger& ledger, Random& random, std::string_view install_secret)
      : ledger_(ledger), random_(random), secret_(install_secret) {}

  // Call once the request has been sent, or will never be. Asks the ledger at once, waits for the
  // end of the exchange, and returns when the outcome is durable. No answer is kept, and neither
  // probe nor undo is ever sent. Fails as the ledger does; then the call, or its outcome, is
  // missing from the log, and nothing else happens.
  Task<Result<void>> Watch(ObservedCall& call);
  // The exchange is over. Call once, after Watch has been started.
  void End(ObservedCall& call);
  const CallDifferences& differences() const { return differences_; }

 private:
  Task<PreparedCall> ForetellApart(const ObservedCall& call);
  Task<Result<void>> Record(ObservedCall& call, PreparedCall prepared);
  void Compare(const ObservedCall& call, const CallBody& body, const Event& begun);
  // Whether enforce would have refused the write because an earlier one broke its flow.
  bool IsFenced(const Event& event) const;
  // What the outcome would have done to the flow.
  void NoteFlow(const ObservedCall& call, const Event& begun, Phase outcome);
  Transition Outcome(const ObservedCall& call, PreparedCall prepared, const Event& begun) const;

  Ledger& ledger_;
  Random& random_;
  const HmacKey secret_;
  ObservedOrder order_;
  CallDifferences differences_;
  BrokenFlows broken_flows_;
};

}  // namespace recourse
