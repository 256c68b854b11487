#include "proxy/base/error.h"

#include <algorithm>
#include <array>

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
constexpr std::string_view kTellOperator =
    "The call was not executed and repeating it will not help until somebody corrects the set-up; "
    "go on without this tool.";

// Indexed by ErrorCode.
constexpr std::array<ErrorFacts, kErrorCodeCount> kFacts{{
    {400, "malformed-request", "Malformed request", "not_executed", false, "http_request_error",
     kFixCall},
    {415, "unsupported-media-type", "Arguments cannot be read", "not_executed", false,
     "http_request_error", kFixCall},
    {413, "request-too-large", "Request body too large", "not_executed", false,
     "http_request_error", kFixCall},
    {431, "header-too-large", "Request header too large", "not_executed", false,
     "http_request_error", kFixCall},
    {414, "target-too-long", "Request target too long", "not_executed", false, "http_request_error",
     kFixCall},
    {408, "request-timeout", "Request not received in time", "not_executed", true,
     "http_request_error", kSafeAgain},
    {405, "method-not-allowed", "Method not allowed", "not_executed", false, "http_request_denied",
     kFixCall},
    {501, "not-implemented", "Not implemented", "not_executed", false, "http_request_error",
     kFixCall},
    {417, "expectation-failed", "Expectation failed", "not_executed", false, "http_request_error",
     kFixCall},
    {505, "version-not-supported", "HTTP version not supported", "not_executed", false,
     "http_request_error", kFixCall},
    {400, "ambiguous-path", "Ambiguous path", "not_executed", false, "http_request_denied",
     "The call was not executed; use the path exactly as the tool documents it."},
    {403, "unknown-backend", "Unknown backend", "not_executed", false, "http_request_denied",
     "The call was not executed and repeating it will not help; this host is not available."},
    {403, "tunnel-refused", "Tunnel refused", "not_executed", false, "http_request_denied",
     "Nothing was sent, and repeating it will not help; reach the host as the detail says, or go "
     "on "
     "without it."},
    {421, "misdirected", "Request for another host", "not_executed", false, "http_request_denied",
     "The call was not executed; use a connection of its own for each host."},
    {403, "denied", "Denied by policy", "rejected", false, "http_request_denied",
     "The call was not executed and repeating it will not help; choose another way."},
    {409, "approval-pending", "Waiting for a human's approval", "pending", true,
     "http_request_denied", kWaitForHuman},
    {403, "approval-rejected", "Rejected by a human", "rejected", false, "http_request_denied",
     "A human decided that this call is not made. Do not repeat it and do not look for another way "
     "to the same effect; say what was rejected and why."},
    {403, "approval-expired", "Not approved and sent in time", "rejected", false,
     "http_request_denied",
     "This call was not executed and will not be, because its approval or what it is sent with was "
     "missing for too long; repeating it does not help. Say so."},
    {409, "approval-void", "The approval no longer holds", "not_executed", true,
     "http_request_denied",
     "The rules changed while the call waited, and it was not executed. Repeat exactly the same "
     "call: a human is asked anew."},
    {400, "invalid-key", "Idempotency key invalid", "not_executed", false, "http_request_error",
     kFixCall},
    {428, "key-required", "Key or trace required", "not_executed", false, "http_request_denied",
     "The call was not executed; send it again with the header that the detail names."},
    {409, "in-progress", "The same call is still running", "pending", true, "http_request_denied",
     kRepeatSame},
    {409, "outcome-unknown", "Outcome unknown", "unknown", true, "http_response_timeout",
     "The call was sent and may have been executed; do not change its arguments. Repeat exactly "
     "the same call later: it returns the outcome when known and never runs twice."},
    {422, "key-reused", "Key reused with other arguments", "not_executed", false,
     "http_request_denied",
     "A call with this key was made with other arguments; send the original arguments to get its "
     "outcome, or use a new key if this is a new intent."},
    {409, "suspected-duplicate", "Probably a repeat", "not_executed", false, "http_request_denied",
     "The call was not executed because it looks like a repeat that a human must judge."},
    {409, "compensated", "Already undone", "compensated", false, "http_request_denied",
     "This call was executed and then undone; it does not run again unless made as a new intent."},
    {409, "flow-closed", "Flow closed", "not_executed", false, "http_request_denied",
     "The call was not executed: the work it belongs to was stopped and what was done of it is "
     "being "
     "undone. Do not repeat it; say so, and begin again from the start under a new trace."},
    {410, "key-expired", "Key expired", "executed", false, "http_request_denied",
     "This call was made before and its answer is no longer kept; it was not executed again."},
    {409, "answer-not-kept", "Executed, answer not kept", "executed", false, "http_request_denied",
     "The call was executed, and its answer is not kept; do not call it again, read the result "
     "another way."},
    {502, "answer-lost", "Executed, answer lost", "executed", false, "http_response_incomplete",
     "The call was executed but its answer was lost; do not call it again, read the result "
     "another way."},
    {503, "not-sent", "Backend not reachable", "not_executed", true, "destination_unavailable",
     kSafeAgain},
    {502, "address-refused", "Backend address refused", "not_executed", false,
     "destination_ip_prohibited", kTellOperator},
    {502, "tls-certificate", "Backend not trusted", "not_executed", false, "tls_certificate_error",
     kTellOperator},
    {502, "tls-refused", "Backend refused the TLS handshake", "not_executed", false,
     "tls_alert_received", kTellOperator},
    {502, "tls-protocol", "No TLS connection with the backend", "not_executed", true,
     "tls_protocol_error", kSafeAgain},
    {504, "backend-timeout", "Backend timeout", "not_executed", true, "http_response_timeout",
     "Nothing was changed; the same call may be made again."},
    {502, "backend-reset", "Backend connection lost", "not_executed", true, "connection_terminated",
     "Nothing was changed; the same call may be made again."},
    {502, "backend-protocol", "Backend answer not understood", "not_executed", false,
     "http_protocol_error", "Nothing was changed, but the tool's answer cannot be read."},
    {503, "log-unavailable", "Event log unavailable", "not_executed", true, "proxy_internal_error",
     kSafeAgain},
    {503, "log-full", "Event log full", "not_executed", true, "proxy_internal_error", kSafeAgain},
    {503, "log-restored", "Event log restored from a backup", "not_executed", true,
     "proxy_internal_error",
     "Nothing was sent, because it cannot be known whether this was done before; an operator has "
     "to look at what was lost, so repeat the same call later."},
    {429, "quota-exceeded", "Quota exceeded", "not_executed", true, "http_request_denied",
     "The call was not executed; wait before making it again, and make fewer calls at a time."},
    {503, "overloaded", "Overloaded", "not_executed", true, "connection_limit_reached", kSafeAgain},
    {503, "draining", "Shutting down", "not_executed", true, "proxy_internal_error", kSafeAgain},
    {508, "loop", "Proxy loop", "not_executed", false, "proxy_loop_detected",
     "The call was not executed; the proxy would have called itself."},
    {502, "may-have-acted", "Outcome unknown", "unknown", false, "http_response_timeout",
     "The call was sent and may have been executed, and nothing here stops a second execution; "
     "find "
     "out what happened before you make it again."},
    {500, "internal", "Internal error", "not_executed", true, "proxy_internal_error", kSafeAgain},
}};

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
