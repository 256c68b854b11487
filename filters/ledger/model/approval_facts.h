// What an operation that needs humans keeps of that: whom it asked for what, and what they said.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/base/crypto/hash.h"

namespace recourse {

class ByteReader;
class ByteWriter;

struct ApprovalDecision {
  // Stored as numbers: never renumber.
  enum class Kind : std::uint8_t { kApproved = 1, kEdited = 2, kRejected = 3 };
  Kind kind = Kind::kApproved;
  bool is_late = false;  // it changed nothing: another one, or the end of the time, came first
  bool is_void = false;  // it was about a request that was edited afterwards
  std::string who;
  std::string reason;        // for people and for the agent; bounded
  std::int64_t wall_ms = 0;  // set by the ledger
  Digest digest{};           // of the request that it was about

  friend bool operator==(const ApprovalDecision&, const ApprovalDecision&) = default;
};

struct ApprovalFacts {
  std::uint16_t needed = 1;     // so many approvers
  std::vector<std::string> by;  // groups or names
  std::int64_t expires_ms = 0;  // how long the question stands, counted from the asking
  // When it was asked: wall clock, row, and time lived through (age_book.h). Set by the ledger.
  std::int64_t asked_ms = 0;
  std::uint64_t asked_row = 0;
  std::int64_t asked_lived_ms = 0;
  Digest policy{};  // digest of the policy that asked; another one in force voids the approval
  Digest digest{};  // of the request as it would be sent now
  std::string why;  // for people: which rule asked
  // The operation that it looks like a repeat of, where that was asked; else 0.
  std::uint64_t repeats = 0;
  std::optional<std::string> original_body{};  // set: somebody edited the body
  std::vector<ApprovalDecision> decisions{};   // in order, late ones too

  friend bool operator==(const ApprovalFacts&, const ApprovalFacts&) = default;
};

// Bytes of the facts in a row. Reading fails when they are not what WriteApproval writes.
void WriteApproval(ByteWriter& writer, const ApprovalFacts& facts);
bool ReadApproval(ByteReader& reader, ApprovalFacts& facts);

}  // namespace recourse
