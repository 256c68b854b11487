// One write call on its way through the chain.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "filters/call_keeper.h"
#include "filters/ledger/model/event.h"
#include "filters/ledger/model/waiting_clients.h"
#include "filters/upstream.h"
#include "policy/model/policy.h"
#include "proxy/base/executor.h"

namespace recourse {

class PendingCommit;  // filters/ledger/ledger.h
struct CallBody;      // filters/call/call_values.h

struct TraceContext {
  std::string trace_id;   // 32 lower-case hex digits
  std::string parent_id;  // 16
  std::string flags = "01";
  bool from_client = false;  // false: made here, and never part of a key
};

// A policy that was in force before, and who the call would have come from under it.
struct EarlierPolicy {
  std::shared_ptr<const Policy> policy;
  std::string caller;
  std::string verified_field;
};

// One attempt at the backend, for logs and metrics.
struct DispatchTry {
  MonoTime began{}, ended{};
  int status = 0;                  // of the backend's answer; 0: there was none
  std::optional<ErrorCode> error;  // why there was none
  bool was_sent = false;
};

// What reading the state that the call is about to change came to.
struct BeforeRead {
  std::optional<StateKept> state;
  std::string why;  // there is none; for people
};

// Texts of ours that are put into a request when it is sent, beside its fields.
struct PlacedTexts {
  std::vector<std::pair<RequestPlace, std::string>> texts;
  bool is_form = false;  // the body; else JSON
};

// Owned by the flow task; outlives the client's connection. One thread.
class RequestContext {
 public:
  RequestContext() = default;
  RequestContext(const RequestContext&) = delete;
  RequestContext& operator=(const RequestContext&) = delete;

  // Set by the lane before the chain starts; constant afterwards, except what `trace` and
  // `dispatch` add to request.headers.
  std::shared_ptr<const Policy> policy;
  const Backend* backend = nullptr;
  const Tool* tool = nullptr;  // nullptr: unlisted, see `guarded`
  bool guarded = true;         // false: unlisted write that is only logged
  std::string tool_name;       // "unlisted.<backend>" when tool is nullptr
  std::string caller;
  std::string verified_field;                    // whose token says who calls; empty: none
  std::vector<Caller::Earlier> earlier_callers;  // see policy/model/callers.h
  std::vector<EarlierPolicy> earlier_policies;   // of enforce mode; newest first
  bool came_as_backend = false;  // to us as if we were the backend: a redirect may lead past us
  HttpRequest request;           // target: canonical path and query
  std::string path;              // canonical, without query
  std::vector<std::pair<std::string, std::string>> captures;  // decoded
  std::vector<std::pair<std::string, std::string>> query;     // decoded
  // Traces are on and this is the id of the call's span: `trace` is set too.
  std::optional<std::string> span_id;
  bool is_traced = false;        // its spans are kept
  Executor* executor = nullptr;  // of the flow's I/O thread
  Timer* timer = nullptr;
  // What `without_trace: pod` calls the flow of this pod; nullptr: there is none.
  const std::string* pod_flow = nullptr;
  InterimSink* interim = nullptr;  // the client that takes messages; nullptr: nobody does
  AnswerRelay* relay = nullptr;    // the client of an attempt that it made itself; likewise
  ClientWait waits;                // of the agent, until this object ends

  // Set by whoever sends what a human approved; the chain then begins with `idempotency`.
  std::uint64_t approved = 0;  // the operation
  Digest approved_key{};       // of it
  bool key_is_taken = false;   // the agent's own key means another operation
  Headers credentials;         // in place of such fields of the request; stored nowhere

  CallKeeper* keeper = nullptr;  // null: for nobody who waits, and bounded elsewhere

  // What request.body says, where it was read already (ReadingOf). Whoever changes the body resets
  // it.
  std::shared_ptr<const CallBody> reading;

  // Set by filters.
  std::optional<std::string> needs_approval;       // approval: why; for people
  std::optional<BeforeRead> before;                // idempotency; unset: not read
  TraceContext trace;                              // trace
  std::uint64_t operation = 0;                     // idempotency; which it is, or repeats
  bool has_tool_error = false;                     // dispatch; as the tool says of itself
  std::optional<AttemptId> answers;                // idempotency; for MarkAnswered
  std::uint64_t unknown = 0;                       // idempotency; the operation, outcome not known
  std::uint16_t unknown_attempt = 0;               // of it
  Digest unknown_key{};                            // likewise
  std::unique_ptr<UpstreamConnection> connection;  // dispatch, opened while the ledger commits
  std::string upstream_key;                        // idempotency; for dispatch
  PlacedTexts placed;                              // idempotency; for dispatch
  std::string if_match;                            // likewise: what it may change; empty: any
  bool lost_race = false;                          // idempotency; it was something else by then
  bool tag_is_refused = false;                     // idempotency; by the backend that shows it
  const Event* dispatching = nullptr;              // idempotency; the attempt that runs
  std::string attempt_span;                        // idempotency; of the attempt that it lets go
  std::shared_ptr<PendingCommit> commit;           // idempotency; awaited by each dispatch
  MonoTime deadline{};                             // dispatch, at its first attempt
  std::string peer;                                // dispatch; for the access log
  int attempts = 0;                                // dispatch; for the access log
  bool was_reused = false;                         // the last one's connection; likewise
  std::vector<DispatchTry> tries;                  // dispatch; those of `attempts` that ended
  bool replayed = false;                           // idempotency; for the access log
  bool ref_missing = false;                        // idempotency; for the metrics
  bool is_forbidden = false;                       // likewise: by `deny` or `allow` of its tool
  bool asks_for_state = false;                     // idempotency; likewise: see Begun::replays
  std::optional<bool> shares_flow;                 // idempotency; likewise, see PreparedCall
};

// Writes that the policy wants logged and otherwise left alone: unlisted ones under `pass`.
inline bool IsLoggedOnly(const RequestContext& context) { return !context.guarded; }

// What the agent is told. Answers of ours carry problem+json and an error code.
struct WriteAnswer {
  HttpResponse response;
  std::optional<ErrorCode> error;  // set: made by us
};

}  // namespace recourse
