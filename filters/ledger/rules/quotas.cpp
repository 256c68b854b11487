#include "filters/ledger/rules/quotas.h"

#include <algorithm>
#include <numeric>

#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::int64_t kMinuteMs = 60'000;
constexpr std::array<std::string_view, kQuotaKindCount> kNames = {
    "writes_in_flight", "operations_per_hour", "stored_bytes", "pending_approvals"};

std::size_t SlotOf(std::int64_t minute) { return static_cast<std::size_t>(minute % 60); }

}  // namespace

std::string_view NameOf(QuotaKind kind) { return kNames.at(static_cast<std::size_t>(kind)); }

QuotaUsage::Use& QuotaUsage::Of(std::string_view caller) {
  const std::string name(caller);
  const auto found = uses_.find(name);
  if (found != uses_.end()) return found->second;
  return uses_.size() < limits::kCallersMax ? uses_[name] : uses_[std::string()];
}

void QuotaUsage::Free(std::string_view caller, std::uint64_t bytes) {
  Use& use = Of(caller);
  use.stored_bytes -= std::min(use.stored_bytes, bytes);
}

// Empties the minutes that have passed since the newest operation.
void QuotaUsage::Forward(Use& use, std::int64_t minute) {
  if (minute - use.minute >= 60) {
    use.begun.fill(0);
    use.minute = minute;
  }
  while (use.minute < minute) use.begun[SlotOf(++use.minute)] = 0;
}

void QuotaUsage::CountNew(Use& use, std::int64_t lived_ms) {
  Forward(use, lived_ms / kMinuteMs);
  ++use.begun[SlotOf(use.minute)];
}

std::optional<QuotaKind> QuotaUsage::Exceeded(const Quota& quota, Use& use, bool is_new,
                                              std::int64_t lived_ms) {
  if (quota.writes_in_flight && use.running >= *quota.writes_in_flight) {
    return QuotaKind::kWritesInFlight;
  }
  if (quota.stored_bytes && use.stored_bytes >= *quota.stored_bytes) {
    return QuotaKind::kStoredBytes;
  }
  if (!quota.operations_per_hour || !is_new) return std::nullopt;
  Forward(use, lived_ms / kMinuteMs);
  const auto begun = std::accumulate(use.begun.begin(), use.begun.end(), std::uint64_t{0});
  if (begun < *quota.operations_per_hour) return std::nullopt;
  return QuotaKind::kOperationsPerHour;
}

}  // namespace recourse
