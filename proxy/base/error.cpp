#include "proxy/base/error.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "proxy/base/check.h"

namespace recourse {
namespace {

constexpr std::string_view kFixCall =
    "The call was not executed; correct it as the detail says before calling again.";
constexpr std::string_view kWaitForHuman =
    "A human must approve this call before it is executed; nobody else can, and it runs once at "
    "most. Do not change its arguments. Go on with other work, then repeat exactly the same call: "
    "it returns the outcome when there is one.";
constexpr std::string_view kRepeatSame =
    "Repeat exactly the same call later: it returns the recorded outcome and never runs twice.";
constexpr std::string_view kSafeAgain =
    "The call was not executed; the same call may be made again in a moment.";
constexpr std::string_view kSafeAgainUnread =
    "Nothing was sent for this request; the same call may be made again in a moment. If it was "
    "made "
    "before, it returns what became of it, and never runs twice.";
constexpr std::string_view kTellOperator =
    "The call was not executed and repeating it will not help until somebody corrects the set-up; "
    "go on without this tool.";

// What operators are told to do.
constexpr std::string_view kNoStep = "Nothing.";
constexpr std::string_view kFixAgent =
    "Nothing; if it is frequent, correct the agent as the detail says.";

constexpr std::array<int, 2> kNoOther{};
constexpr std::array<int, 2> kOrAccepted{202};
constexpr std::array<int, 2> kOrGateway{502, 504};

// Indexed by ErrorCode.
constexpr std::array<ErrorFacts, kErrorCodeCount> kFacts{{
    {400, "malformed-request", "Malformed request", "not_executed", false, "http_request_error",
     kFixCall, "The head or body has two readings, or the call overrides its own method or path.",
     kFixAgent},
    {415, "unsupported-media-type", "Arguments cannot be read", "not_executed", false,
     "http_request_error", kFixCall,
     "A write's arguments cannot be read from its `Content-Type`, charset or coding.", kFixAgent},
    {413, "request-too-large", "Request body too large", "not_executed", false,
     "http_request_error", kFixCall,
     "The body is over 8 MiB (a write, an MCP message), 10,000 pairs (its form) or 256 KiB (a call "
     "for a human).",
     kFixAgent},
    {431, "header-too-large", "Request header too large", "not_executed", false,
     "http_request_error", kFixCall, "The head is over its cap, or too large to be forwarded.",
     kFixAgent},
    {414, "target-too-long", "Request target too long", "not_executed", false, "http_request_error",
     kFixCall, "The request's target is over its cap.", kFixAgent},
    {408, "request-timeout", "Request not received in time", "not_executed", true,
     "http_request_error", kSafeAgain, "The head or body came too slowly.",
     "Look at the network and the load."},
    {405, "method-not-allowed", "Method not allowed", "not_executed", false, "http_request_denied",
     kFixCall,
     "The method is not served here: TRACE, TRACK, DEBUG, HEAD of a write, CONNECT in a tunnel, or "
     "one that an MCP endpoint does not know. `Allow` may name others.",
     kFixAgent},
    {501, "not-implemented", "Not implemented", "not_executed", false, "http_request_error",
     kFixCall, "The body has a transfer coding other than `chunked`.", kFixAgent},
    {417, "expectation-failed", "Expectation failed", "not_executed", false, "http_request_error",
     kFixCall, "`Expect` asks for something other than `100-continue`.", kFixAgent},
    {505, "version-not-supported", "HTTP version not supported", "not_executed", false,
     "http_request_error", kFixCall, "The request is neither HTTP/1.0 nor HTTP/1.1.", kFixAgent},
    {400, "ambiguous-path", "Ambiguous path", "not_executed", false, "http_request_denied",
     "The call was not executed; use the path exactly as the tool documents it.",
     "The path's readings disagree about what the call may do.", kFixAgent},
    {403, "unknown-backend", "Unknown backend", "not_executed", false, "http_request_denied",
     "The call was not executed and repeating it will not help; this host is not available, so go "
     "on without it.",
     "No backend of the policy has this host.",
     "If wanted, add it to a backend's `url` or `hosts`."},
    {403, "tunnel-refused", "Tunnel refused", "not_executed", false, "http_request_denied",
     "Nothing was sent, and repeating it will not help; reach the host as the detail says, or go "
     "on without it.",
     "A CONNECT to a host that is neither a backend nor in `tunnels`, or to an address that no "
     "tunnel may have.",
     "If wanted, list it in `tunnels`, or make it a backend with `intercept: true`."},
    {421, "misdirected", "Request for another host", "not_executed", false, "http_request_denied",
     "The call was not executed; use a connection of its own for each host.",
     "The request is for another host or port than its tunnel or redirected connection, or a new "
     "policy no longer intercepts this host.",
     kFixAgent},
    {403, "denied", "Denied by policy", "rejected", false, "http_request_denied",
     "The call was not executed and repeating it will not help; choose another way.",
     "The call is unlisted and such calls are denied, agents may not give their flow this order, "
     "or `before` finds nothing to keep.",
     "If wanted, make it a tool, or change `unlisted`, `flow_rules` or `before`; `recourse policy "
     "explain` says how a call is treated."},
    {401, "caller-unknown", "Caller unknown", "not_executed", false, "http_request_denied",
     "The call was not executed, because it does not say who makes it, or what says so does not "
     "hold; the detail names what is missing. Send it again with that, or with a new token.",
     "A write lacks what the policy's `callers` names, or its token does not hold.",
     "Have the agent send it; see that `jwks_file` holds the issuer's keys."},
    {409, "approval-pending", "Waiting for a human's approval", "pending", true,
     "http_request_denied", kWaitForHuman,
     "The call waits for a human; ask at `Location`. Only with the tool's `answer: 409` is it a "
     "problem document.",
     "Decide: `recourse approvals list`, then `approve` or `reject`.", kOrAccepted},
    {403, "approval-rejected", "Rejected by a human", "rejected", false, "http_request_denied",
     "A human decided that this call is not made. Do not repeat it and do not look for another way "
     "to the same effect; say what was rejected and why.",
     "A human said no; it holds for the caller's equal calls until `expires` is over.", kNoStep},
    {403, "approval-expired", "Not approved and sent in time", "rejected", false,
     "http_request_denied",
     "This call was not executed, because its approval or what it is sent with was missing for too "
     "long. Say so; where nobody decided, the same call made again is a new question.",
     "`expires` passed during the call's `hold` (a later repeat is a new question, 202), its "
     "`credentials` stayed missing, or its flow takes no writes.",
     "Decide sooner (`flow_rules.webhook` tells), raise `expires`, or mend the files of its "
     "`credentials`."},
    {409, "approval-void", "The approval no longer holds", "not_executed", true,
     "http_request_denied",
     "The rules changed while the call waited, and it was not executed. Repeat exactly the same "
     "call: a human is asked anew.",
     "The policy changed before the call was sent, so its approval no longer holds.",
     "Nothing: the next call is asked about anew."},
    {400, "invalid-key", "Idempotency key invalid", "not_executed", false, "http_request_error",
     kFixCall,
     "The `Idempotency-Key`, or the intent of an MCP call, cannot be read, or two of them "
     "disagree.",
     kFixAgent},
    {428, "key-required", "Key or trace required", "not_executed", false, "http_request_denied",
     "The call was not executed; send it again with the header that the detail names.",
     "The call lacks what the tool's `scope` names (session, header, body value, `baggage` "
     "member), or, with `trace: required`, both trace and key.",
     "Have the agent send it, or change the tool's `scope` or `trace`."},
    {409, "in-progress", "The same call is still running", "pending", true, "http_request_denied",
     kRepeatSame, "The same call still runs; a repeat joins it.",
     "If it lasts, look at the backend and `recourse events list`."},
    {409, "outcome-unknown", "Outcome unknown", "unknown", true, "http_response_timeout",
     "The call was sent and may have been executed; do not change its arguments. Repeat exactly "
     "the same call later: it returns the outcome when known and never runs twice.",
     "Sent, and nobody knows whether it took effect: the answer was lost or late, or tells nothing "
     "(a 5xx, 206 or 207, a `success_when` that does not hold).",
     "Look at the backend, and say what became of it: `recourse operations settle`. With `settle` "
     "or `key_header` Recourse finds out itself. Put back a missing key that the detail names.",
     kOrGateway},
    {422, "key-reused", "Key reused with other arguments", "not_executed", false,
     "http_request_denied",
     "A call with this key was made with other arguments; send the original arguments to get its "
     "outcome, or use a new key if this is a new intent.",
     "The key came earlier with other arguments.",
     "Correct an agent that uses one key for several intents, or set `on_mismatch`."},
    {409, "other-credentials", "Made with other credentials", "unknown", false,
     "http_request_denied",
     "The same call was made with other credentials, and its answer is theirs; `outcome` says how "
     "it stands. It was not made again. If yours is another intent, name it with Recourse-Intent.",
     "An equal call of the same trace, session or key came with other credentials, or before an "
     "upgrade. The answer's `outcome` is that call's.",
     "Let agents that act for several users name their calls, or begin a trace for each. Renewed "
     "tokens of verified callers need nothing."},
    {409, "suspected-duplicate", "Probably a repeat", "not_executed", false, "http_request_denied",
     "The call was not executed because it looks like a repeat that a human must judge.",
     "It looks like a repeat that a human is to judge (`ask`), and the tool names nobody.",
     "Give the tool `approval: { by, when: suspected }`."},
    {409, "compensated", "Already undone", "compensated", false, "http_request_denied",
     "This call was executed and then undone; it does not run again unless made as a new intent.",
     "The call took effect and was undone since.", kNoStep},
    {409, "superseded", "Executed, and changed since", "executed", false, "http_request_denied",
     "This call was executed, and a later write has changed what it did, or may have, so its "
     "answer need no longer be true; it was not made again, since that may be a second one. Read "
     "how things stand; to make it again all the same, name that intent with Recourse-Intent.",
     "The call was executed; a later write (a DELETE, an opposite such as `reopen`, one of "
     "`superseded_by`) has changed what it did, or may have: its outcome is unknown, or its "
     "credentials are others.",
     "Nothing; correct an agent that undoes what it does not know to be done."},
    {409, "flow-closed", "Flow closed", "not_executed", false, "http_request_denied",
     "The call was not executed: the work it belongs to was stopped and what was done of it is "
     "being undone. Do not repeat it; say so, and begin again from the start under a new trace.",
     "The flow is being undone, was undone or is parked, and takes no more writes; or an order "
     "names a flow that is not open.",
     "See `recourse flows show`; if it is parked, `recourse flows retry`, `resolve` or `close`."},
    {410, "key-expired", "Key expired", "executed", false, "http_request_denied",
     "This call was made before and its answer is no longer kept; it was not executed again, so "
     "read the result another way.",
     "The call was made before; its answer is no longer kept.",
     "If that is too soon, raise `ledger.retention`."},
    {409, "answer-not-kept", "Executed, answer not kept", "executed", false, "http_request_denied",
     "The call was executed, and its answer is not kept; do not call it again, read the result "
     "another way.",
     "Executed, but the answer was too large, found no room in the ledger, is no JSON although "
     "`redact` needs it, or is sealed with a missing key.",
     "Put back the key that the detail names."},
    {502, "answer-lost", "Executed, answer lost", "executed", false, "http_response_incomplete",
     "The call was executed but its answer was lost; do not call it again, read the result another "
     "way.",
     "Executed, but the answer was cut off.", "Look at the backend or the network."},
    {503, "not-sent", "Backend not reachable", "not_executed", true, "destination_unavailable",
     kSafeAgain,
     "The backend could not be reached or said that it did nothing, or a probe proved it.",
     "See that the backend is up, and that its name and port lead there."},
    {502, "address-refused", "Backend address refused", "not_executed", false,
     "destination_ip_prohibited", kTellOperator,
     "The backend's name leads to an address outside its `addresses`.",
     "Correct what the name leads to, or the backend's `addresses`."},
    {502, "tls-certificate", "Backend not trusted", "not_executed", false, "tls_certificate_error",
     kTellOperator, "The backend's certificate cannot be verified.",
     "Correct it, or the backend's `tls.ca_file` or `tls.server_name`."},
    {502, "tls-refused", "Backend refused the TLS handshake", "not_executed", false,
     "tls_alert_received", kTellOperator, "The backend refused the TLS handshake.",
     "See what it asks of clients: `tls.client_cert`, `tls.server_name`, TLS 1.2 or newer."},
    {502, "tls-protocol", "No TLS connection with the backend", "not_executed", true,
     "tls_protocol_error", kSafeAgain, "No TLS connection with the backend, for another reason.",
     "See that TLS 1.2 or newer is spoken at its port."},
    {504, "backend-timeout", "Backend timeout", "not_executed", true, "http_response_timeout",
     "Nothing was changed; the same call may be made again.", "A read got no answer in time.",
     "Look at the backend, or give it a longer `timeout`.", kNoOther, ErrorCode::kMayHaveActed},
    {502, "backend-reset", "Backend connection lost", "not_executed", true, "connection_terminated",
     "Nothing was changed; the same call may be made again.",
     "A read lost its connection before the answer was whole, or the answer that refused a write "
     "was lost.",
     "Look at the backend or the network.", kNoOther, ErrorCode::kMayHaveActed},
    {502, "backend-protocol", "Backend answer not understood", "not_executed", false,
     "http_protocol_error",
     "Nothing was changed, but the tool's answer cannot be read; go on without this tool.",
     "A read's answer is not HTTP or is cut off in its head, or the answer that refused a write "
     "was too large.",
     "Look at what the backend answers.", kNoOther, ErrorCode::kMayHaveActed},
    {503, "log-unavailable", "Event log unavailable", "not_executed", true, "proxy_internal_error",
     kSafeAgainUnread, "The ledger cannot be written or read, so writes are refused.",
     "See `/ready`, the log and `recourse ledger status`: the disk, the database, a missing key. A "
     "restart may be needed.",
     kNoOther, ErrorCode::kOutcomeUnknown},
    {503, "log-full", "Event log full", "not_executed", true, "proxy_internal_error", kSafeAgain,
     "The ledger has no room for new operations; the rest goes on.",
     "Give it more room, or shorten `ledger.retention`; see `recourse ledger status`.", kNoOther,
     ErrorCode::kOutcomeUnknown},
    {503, "log-restored", "Event log restored from a backup", "not_executed", true,
     "proxy_internal_error",
     "Nothing was sent, because it cannot be known whether this was done before; an operator has "
     "to look at what was lost, so repeat the same call later.",
     "The ledger came from a backup, and nobody has accepted what it lacks.",
     "See to what was done since, then run `recourse ledger accept --reason TEXT`."},
    {429, "quota-exceeded", "Quota exceeded", "not_executed", true, "http_request_denied",
     "The call was not executed; wait before making it again, and make fewer calls at a time.",
     "The caller is over a quota, its flow over 10,000 writes, or a refused call repeated over "
     "1,000 "
     "times a minute.",
     "Give the caller more under `quotas`; close the flow, or have the agent begin another trace."},
    {503, "overloaded", "Overloaded", "not_executed", true, "connection_limit_reached", kSafeAgain,
     "Too many connections, writes, open operations, open flows or waiting calls, or no memory.",
     "See the metrics: decide what waits, settle what is unknown, find the agent that calls too "
     "much, or raise `--connections-max`, `--writes-max` or `--call-memory`."},
    {503, "draining", "Shutting down", "not_executed", true, "proxy_internal_error", kSafeAgain,
     "The process is shutting down, or was told to by `recourse drain`.",
     "After `recourse drain` start the process again."},
    {508, "loop", "Proxy loop", "not_executed", false, "proxy_loop_detected",
     "The call was not executed, as the proxy would have called itself; go on without this tool.",
     "The request has passed this Recourse before, or the backend's address is one of its own "
     "listeners.",
     "Correct the backend's `url`."},
    {502, "may-have-acted", "Outcome unknown", "unknown", false, "http_response_timeout",
     "The call was sent and may have been executed, and nothing here stops a second execution; "
     "find out what happened before you make it again.",
     "No `type` of its own: a problem, mostly `backend-*`, with a call that was sent and is not "
     "remembered: a write in observe mode, an MCP client's notification or response.",
     "Look at the backend; nothing here settles it."},
    {500, "internal", "Internal error", "not_executed", true, "proxy_internal_error", kSafeAgain,
     "Recourse failed, or the files of a backend's `tls` cannot be used.",
     "Correct the file that the log names; report anything else.", kNoOther,
     ErrorCode::kOutcomeUnknown},
}};
static_assert(std::ranges::all_of(kFacts, [](const ErrorFacts& facts) {
  return !facts.slug.empty() && !facts.cause.empty() && !facts.operators.empty();
}));
// Its text would be gone before the error.
static_assert(!std::is_constructible_v<Error, ErrorCode, std::string>);

}  // namespace

const ErrorFacts& FactsOf(ErrorCode code) {
  const auto index = static_cast<std::size_t>(code);
  RC_CHECK(index < kFacts.size());
  return kFacts[index];
}

bool EndsConnection(ErrorCode code) {
  static constexpr std::array kStatuses = {400, 405, 408, 413, 414, 415, 417, 431, 501, 505, 508};
  const int status = FactsOf(code).http_status;
  return std::find(kStatuses.begin(), kStatuses.end(), status) != kStatuses.end();
}

}  // namespace recourse
