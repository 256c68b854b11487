#include "filters/ledger/engine/space_account.h"

#include <algorithm>
#include <string>

#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr Millis kSpaceLookEvery{100};
constexpr int kWarnPercents[] = {70, 85};
constexpr int kCalmPercent = 5;  // so much less, and the next crossing is told again

}  // namespace

// A row takes up to twice its size while pages are split, and whole pages when it is large.
bool SpaceAccount::Has(std::uint64_t bytes, std::uint64_t promised) {
  const std::uint64_t wanted = 2 * bytes + promised + limits::kSpaceSlackBytes;
  if (free_bytes_ >= wanted) return true;
  // The disk is asked again for more than before, after a commit, and now and then.
  if (wanted > wanted_ || is_stale_ || clock_.Now() - looked_at_ >= kSpaceLookEvery) {
    wanted_ = wanted;
    Look(promised);
  }
  return free_bytes_ >= wanted;
}

void SpaceAccount::Take(std::uint64_t bytes, std::uint64_t promised) {
  free_bytes_ -= std::min<std::uint64_t>(free_bytes_, 2 * bytes + kPagesOfCommit);
  wanted_ = 0;
  is_stale_ = true;
  if (clock_.Now() - looked_at_ >= kSpaceLookEvery) Look(promised);
}

void SpaceAccount::Look(std::uint64_t promised) {
  looked_at_ = clock_.Now();
  is_stale_ = false;
  const LogSpace space = log_.Space(std::max(wanted_, promised + 2 * limits::kSpaceSlackBytes));
  free_bytes_ = space.free_bytes;
  Warn(space.used_percent);
}

// Once per crossing.
void SpaceAccount::Warn(int percent) {
  if (percent < warned_ - kCalmPercent) warned_ = 0;
  for (const int limit : kWarnPercents) {
    if (percent < limit || warned_ >= limit) continue;
    warned_ = limit;
    Log(LogLevel::kWarn, "the ledger fills up; when it is full new writes are refused",
        {{"used_percent", std::to_string(percent)},
         {"do", "raise --ledger-max, give the disk more room, or shorten ledger.retention"}});
  }
}

}  // namespace recourse
