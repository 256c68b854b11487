// Which statuses prove that a backend did not act: the one table, with the RFC that says so. Its
// page is the list in filters/README.md.
#pragma once

#include <array>
#include <cstdint>

namespace recourse {

enum class StatusProof : std::uint8_t {
  kNone,         // it may have acted
  kRejected,     // it did not act; `failed_ttl` may say that a repeat is told the same
  kRejectedNow,  // the same, but for now only: a repeat is always sent
  kComesAgain,   // it asks for the call once more, with something else: no failure yet
  kComesLater,   // it asks for the same call later: likewise
};

struct StatusFact {
  int status;
  StatusProof proof;
};

// All others, 408 and 409 among them, prove nothing: the policy may say otherwise (`not_executed`).
inline constexpr auto kStatusProofs = std::to_array<StatusFact>({
    {307, StatusProof::kRejected},     // Temporary Redirect (RFC 9110 15.4.8)
    {308, StatusProof::kRejected},     // Permanent Redirect (RFC 9110 15.4.9)
    {400, StatusProof::kRejected},     // Bad Request (RFC 9110 15.5.1)
    {401, StatusProof::kComesAgain},   // Unauthorized (RFC 9110 15.5.2)
    {402, StatusProof::kComesAgain},   // Payment Required (RFC 9110 15.5.3)
    {403, StatusProof::kRejectedNow},  // Forbidden (RFC 9110 15.5.4)
    {404, StatusProof::kRejected},     // Not Found (RFC 9110 15.5.5)
    {405, StatusProof::kRejected},     // Method Not Allowed (RFC 9110 15.5.6)
    {406, StatusProof::kRejected},     // Not Acceptable (RFC 9110 15.5.7)
    {407, StatusProof::kComesAgain},   // Proxy Authentication Required (RFC 9110 15.5.8)
    {410, StatusProof::kRejected},     // Gone (RFC 9110 15.5.11)
    {411, StatusProof::kRejected},     // Length Required (RFC 9110 15.5.12)
    {412, StatusProof::kComesAgain},   // Precondition Failed (RFC 9110 15.5.13)
    {413, StatusProof::kRejected},     // Content Too Large (RFC 9110 15.5.14)
    {414, StatusProof::kRejected},     // URI Too Long (RFC 9110 15.5.15)
    {415, StatusProof::kRejected},     // Unsupported Media Type (RFC 9110 15.5.16)
    {416, StatusProof::kRejected},     // Range Not Satisfiable (RFC 9110 15.5.17)
    {417, StatusProof::kRejected},     // Expectation Failed (RFC 9110 15.5.18)
    {421, StatusProof::kRejected},     // Misdirected Request (RFC 9110 15.5.20)
    {422, StatusProof::kRejected},     // Unprocessable Content (RFC 9110 15.5.21)
    {423, StatusProof::kRejected},     // Locked (RFC 4918 11.3)
    {424, StatusProof::kRejected},     // Failed Dependency (RFC 4918 11.4)
    {425, StatusProof::kComesLater},   // Too Early (RFC 8470 5.2)
    {426, StatusProof::kRejected},     // Upgrade Required (RFC 9110 15.5.22)
    {428, StatusProof::kComesAgain},   // Precondition Required (RFC 6585 3)
    {429, StatusProof::kComesLater},   // Too Many Requests (RFC 6585 4)
    {431, StatusProof::kRejected},     // Request Header Fields Too Large (RFC 6585 5)
    {451, StatusProof::kRejected},     // Unavailable For Legal Reasons (RFC 7725 3)
    {501, StatusProof::kRejected},     // Not Implemented (RFC 9110 15.6.2)
    {505, StatusProof::kRejected},     // HTTP Version Not Supported (RFC 9110 15.6.6)
});

constexpr bool IsFailure(StatusProof proof) {
  return proof == StatusProof::kRejected || proof == StatusProof::kRejectedNow;
}

constexpr StatusProof ProofOf(int status) {
  for (const StatusFact& fact : kStatusProofs) {
    if (fact.status == status) return fact.proof;
  }
  return StatusProof::kNone;
}

}  // namespace recourse
