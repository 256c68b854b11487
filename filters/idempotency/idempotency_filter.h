// One effect per key: gives every write its operation, lets one attempt through, and answers
// repeats from the ledger.
#pragma once

#include <expected>
#include <string>

#include "filters/approval_queue.h"
#include "filters/call/answers.h"
#include "filters/call/outcome.h"
#include "filters/credentials/credentials.h"
#include "filters/filter.h"
#include "filters/flow_monitor.h"
#include "filters/idempotency/before_reader.h"
#include "filters/key/operation_request.h"
#include "filters/ledger/ledger.h"
#include "filters/outcome_resolver.h"
#include "proxy/base/random.h"

namespace recourse {

class IdempotencyFilter final : public Filter {
 public:
  struct Parts {
    Ledger& ledger;
    OutcomeResolver& settling;
    FlowMonitor& flowing;
    ApprovalQueue& approving;
    const Clock& clock;
    Random& random;
    std::string install_secret;  // random, constant over the life of the ledger
    std::string ledger_secret;   // the same, and no other ledger has it
    BeforeReader before;
    ReadSecret read_secret{};  // for the credentials of approved calls
  };
  // What `parts` refers to outlives the filter.
  explicit IdempotencyFilter(Parts parts)
      : parts_(std::move(parts)), secret_(parts_.install_secret) {}
  std::string_view name() const override { return "idempotency"; }

  // Never fails: whatever happens is told as an answer. A backend's own answer comes back in
  // Outcome::answer with our fields; replays and problems in Outcome::local. The outcome is durable
  // before this returns. Sets context.answers when the answer, once delivered, counts for
  // Ledger::MarkAnswered.
  Task<Result<Outcome>> Handle(RequestContext& context, Next next) override;

 private:
  struct Call {
    std::shared_ptr<const CallBody> body;
    Principal principal = kNoPrincipal;
    bool is_named = false;  // the agent named its intent
    MonoTime hold_until{};
    MonoTime approval_until{};  // how long it is held for a human
  };

  using Prepared = std::expected<PreparedCall, Outcome>;
  // What the ledger is asked, or why the call is refused.
  Prepared Prepare(RequestContext& context) const;
  [[gnu::noinline]] Task<Prepared> PrepareApart(RequestContext& context) const;
  // The first or next attempt: dispatches, classifies, records, answers.
  Task<Outcome> RunAttempt(RequestContext& context, Next next, const Call& call, Begun& begun);
  // Takes `dispatching` away.
  Task<Outcome> Conclude(RequestContext& context, const Call& call, Event& dispatching,
                         Result<Answer> result);
  // Whoever asks first about an approved call is told all that the backend said.
  std::optional<Outcome> FirstTelling(RequestContext& context, Principal principal,
                                      const Event& event,
                                      AnswerSource origin = AnswerSource::kReplay) const;
  std::expected<void, std::string> AddCredentials(RequestContext& context,
                                                  const Event& begun) const;
  // What follows is rare, or large, or both: inlined, its frames would be part of every call's.
  [[gnu::noinline]] Task<Outcome> GiveBack(RequestContext& context, const Event& dispatching,
                                           Outcome refusal);
  // Answers a repeat, and takes `begun` away; nullopt: the operation moved meanwhile, ask the
  // ledger again.
  [[gnu::noinline]] Task<std::optional<Outcome>> Repeat(RequestContext& context, const Call& call,
                                                        Begun& begun);
  [[gnu::noinline]] Task<Result<std::optional<Event>>> Join(RequestContext& context,
                                                            const Event& running, MonoTime until);
  [[gnu::noinline]] Task<std::optional<Outcome>> AfterJoin(RequestContext& context,
                                                           const Call& call, Event running);
  [[gnu::noinline]] Task<std::optional<Outcome>> Hold(RequestContext& context, const Call& call,
                                                      Begun& begun);
  [[gnu::noinline]] Task<std::optional<Outcome>> Settle(RequestContext& context, const Call& call,
                                                        Event uncertain);

  const Parts parts_;
  const HmacKey secret_;
};

}  // namespace recourse
