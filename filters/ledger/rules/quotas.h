// What every caller uses of the ledger, held against its quota. It begins empty with every process.
// Pure, single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "policy/model/ledger_rules.h"

namespace recourse {

enum class QuotaKind : std::uint8_t {
  kWritesInFlight,
  kOperationsPerHour,
  kStoredBytes,
  kPendingApprovals,  // counted by the ledger's claims, which outlive the process
};
inline constexpr int kQuotaKindCount = 4;
std::string_view NameOf(QuotaKind kind);  // the policy's word

class QuotaUsage {
 public:
  struct Use {
    std::uint64_t running = 0;       // operations that are DISPATCHING
    std::uint64_t stored_bytes = 0;  // rows of events, written by this process and still kept
    // New operations of the last hour, by minute of lived time modulo 60.
    std::array<std::uint32_t, 60> begun{};
    std::int64_t minute = 0;  // of the newest one
  };

  // Stays valid. Beyond kCallersMax callers the rest shares one entry.
  Use& Of(std::string_view caller);
  void Store(std::string_view caller, std::uint64_t bytes) { Of(caller).stored_bytes += bytes; }
  void Free(std::string_view caller, std::uint64_t bytes);
  void CountNew(Use& use, std::int64_t lived_ms);
  // The quota that one more attempt would exceed. `is_new`: it begins an operation.
  std::optional<QuotaKind> Exceeded(const Quota& quota, Use& use, bool is_new,
                                    std::int64_t lived_ms);

 private:
  static void Forward(Use& use, std::int64_t minute);

  std::unordered_map<std::string, Use> uses_;
};

}  // namespace recourse
