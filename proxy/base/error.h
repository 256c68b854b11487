// What can go wrong, as values. An Error is small and trivially copyable; its dynamic text is
// logged or put into the answer where the error is born.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace recourse {

enum class ErrorCode : std::uint8_t {
  kMalformedRequest,      // the head or body cannot be read one way only
  kUnsupportedMediaType,  // a write whose arguments cannot be read
  kRequestTooLarge,       // body over its cap
  kHeaderTooLarge,        // head over its cap
  kTargetTooLong,
  kRequestTimeout,  // the client was too slow
  kMethodNotAllowed,
  kNotImplemented,  // unknown transfer coding
  kExpectationFailed,
  kVersionNotSupported,
  kAmbiguousPath,       // two readings of the path disagree about what it may do
  kUnknownBackend,      // no backend of the policy has this authority
  kTunnelRefused,       // no tunnel may lead there, or not with what is in it
  kMisdirected,         // a request in a tunnel names another host than the tunnel
  kDenied,              // the policy says no
  kCallerUnknown,       // who makes the call is not in it, or does not hold
  kApprovalPending,     // it waits for a human
  kApprovalRejected,    // a human said no
  kApprovalExpired,     // no human said yes in time
  kApprovalVoid,        // the policy changed before it was sent: it has to be asked anew
  kInvalidKey,          // the Idempotency-Key field cannot be read
  kKeyRequired,         // the policy's scope is not in the call
  kInProgress,          // the same call is still running
  kOutcomeUnknown,      // sent, and nobody knows whether it took effect
  kKeyReused,           // same key, other arguments
  kOtherCredentials,    // the same call was made with other credentials
  kSuspectedDuplicate,  // the policy asks a human about a probable repeat
  kCompensated,         // the effect was undone; it does not run again
  kSuperseded,          // executed, and a later write has changed what it did
  kFlowClosed,          // the flow is being undone, was undone, or waits for a human
  kKeyExpired,          // the key was used, and its answer is no longer kept
  kAnswerNotKept,       // executed, but its answer is not kept
  kAnswerLost,          // executed, but its answer was lost on the way
  kNotSent,             // the backend could not be reached; provably nothing was sent
  kAddressRefused,      // the backend's name leads where it must not
  kTlsCertificate,      // the backend's certificate cannot be verified
  kTlsRefused,          // the backend refused our TLS handshake
  kTlsProtocol,         // no TLS connection with the backend for another reason
  kBackendTimeout,      // read lane: no answer in time
  kBackendReset,        // read lane: connection lost
  kBackendProtocol,     // read lane: the answer is not HTTP
  kLedgerUnavailable,   // the log cannot be written, so writes are refused
  kLedgerFull,          // the log has no room for a new operation
  kLedgerRestored,      // the log came from a backup, and nobody has accepted what it lacks
  kQuotaExceeded,       // the caller has used up what the policy grants it
  kOverloaded,
  kDraining,
  kLoop,
  kMayHaveActed,  // observe mode: a write was sent, and nobody knows whether it took effect
  kInternal,
};
inline constexpr int kErrorCodeCount = static_cast<int>(ErrorCode::kInternal) + 1;

// What is known about the backend's side effect when a call did not end in an answer.
enum class Delivery : std::uint8_t { kNotSent, kUncertain, kAnswered };

class Error {
 public:
  constexpr Error() = default;
  // `detail` must have static storage duration. Who knows that nothing was sent has to say so.
  constexpr explicit Error(ErrorCode code, std::string_view detail = {},
                           Delivery delivery = Delivery::kUncertain)
      : detail_(detail), code_(code), delivery_(delivery) {}
  template <std::same_as<std::string> Text>
  Error(ErrorCode, const Text&, Delivery = Delivery::kUncertain) = delete;
  constexpr ErrorCode code() const { return code_; }
  constexpr Delivery delivery() const { return delivery_; }
  constexpr std::string_view detail() const { return detail_; }

 private:
  std::string_view detail_;
  ErrorCode code_ = ErrorCode::kInternal;
  Delivery delivery_ = Delivery::kNotSent;
};

template <class T>
using Result = std::expected<T, Error>;

// For a text that cannot be read, or not in one way only. `reason` has static storage duration.
constexpr std::unexpected<Error> Malformed(std::string_view reason) {
  return std::unexpected(Error(ErrorCode::kMalformedRequest, reason));
}
template <std::same_as<std::string> Text>
void Malformed(const Text&) = delete;

// How an ErrorCode looks from outside: one row per code, the only place that knows. The page
// proxy/docs/answers.md is rendered from it (tests/filters/answers_page_test.cpp).
struct ErrorFacts {
  int http_status;
  std::string_view slug;         // problem type, metric label, log field; stable
  std::string_view title;        // RFC 9457 title
  std::string_view outcome;      // not_executed executed unknown pending rejected compensated
  bool retryable;                // is repeating the same call unchanged worth it
  std::string_view proxy_error;  // RFC 9209 error token
  std::string_view advice;       // one sentence written for the model
  // For people, in Markdown.
  std::string_view cause;
  std::string_view operators;  // what they should do
  // What an answer of the code may have instead: another status; outcome, retryable and advice of
  // another code, when the call had been sent.
  std::array<int, 2> other_statuses{};
  std::optional<ErrorCode> speaks_for{};
};
const ErrorFacts& FactsOf(ErrorCode code);

// True for refusals of requests that cannot be read in one way or not whole: what follows on their
// connection might be read in another way too, so it is closed after the answer.
bool EndsConnection(ErrorCode code);

}  // namespace recourse
