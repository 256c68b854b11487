// What the policy tells the ledger, apart from the rest of it: the ledger is not compiled anew when
// another rule changes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/clock.h"
#include "proxy/base/limits.h"

namespace recourse {

enum class OnMismatch : std::uint8_t { kReject, kReplay, kAsk };
enum class AcrossTraces : std::uint8_t { kIfUnanswered, kNever, kAlways, kAsk };

// How far what a tool does can be taken back. Stored as numbers of two bits: never renumber.
enum class UndoClass : std::uint8_t {
  kRead = 0,                  // of a stored write: an earlier version did not say
  kReversible = 1,            // what it changed is put back, or what it made is gone
  kExternallyReversible = 2,  // taken back by a further effect: a refund, a new id, a closed thing
  kIrreversible = 3,
};

// How long what is remembered is kept. Only time in which the process runs counts.
struct LedgerRule {
  Millis retention = limits::kRetention;    // a final operation's answer, after its last event
  Millis tombstones = limits::kTombstones;  // after that: its key, which is answered with 410
  std::vector<std::string> keep_headers{};  // of every tool's answers
};

// Which ledger it is, where the policy says so.
struct LedgerPlace {
  std::string url;            // empty: the one of --data
  std::string password_file;  // of the database; read at every connect
  std::string group;          // the pods that do each other's work; empty: none is named
  Millis wait{2'000};         // how long a write waits at most for a database that does not answer

  friend bool operator==(const LedgerPlace&, const LedgerPlace&) = default;
};

// What one caller may cause. Unset: no limit.
struct Quota {
  std::optional<std::uint64_t> writes_in_flight;     // operations being sent
  std::optional<std::uint64_t> operations_per_hour;  // new operations
  std::optional<std::uint64_t> stored_bytes;         // rows of the ledger
  // Calls that wait for a human; unset: limits::kPendingApprovalsPerCaller.
  std::optional<std::uint64_t> pending_approvals;
};
struct Quotas {
  Quota standard;                                     // of every caller not named below
  std::map<std::string, Quota, std::less<>> callers;  // by identity

  const Quota& Of(std::string_view caller) const {
    const auto found = callers.find(caller);
    return found == callers.end() ? standard : found->second;
  }
};

}  // namespace recourse
