#include "filters/ledger/engine/ledger_clock.h"

#include <algorithm>

namespace recourse {

LedgerClock::LedgerClock(const Clock& clock, std::string_view ages, std::uint64_t last_row)
    : clock_(clock),
      jumps_(clock.Now(), ToUnixMillis(clock.WallNow())),
      ages_(ages, last_row, clock.Now()) {}

std::int64_t LedgerClock::NoteRow(std::uint64_t row) {
  const std::int64_t wall_ms = WallMs();
  jumps_.Note(row, clock_.Now(), wall_ms);
  return wall_ms;
}

void LedgerClock::BeginProcess(std::uint64_t first, std::optional<std::int64_t> last_wall_ms) {
  process_first_row_ = first;
  if (last_wall_ms) went_back_before_start_ = *last_wall_ms > WallMs();
}

std::int64_t LedgerClock::AgeMs(std::uint64_t row, std::int64_t written_ms) const {
  const MonoTime now = clock_.Now();
  return std::max(jumps_.AgeMs(row, written_ms, now, WallMs()), ages_.LeastAgeMs(now, row));
}

// The difference is its true age.
std::int64_t LedgerClock::DatedMs(std::uint64_t row, std::int64_t written_ms) const {
  const std::int64_t wall_ms = WallMs();
  const MonoTime now = clock_.Now();
  return wall_ms -
         std::max(jumps_.AgeMs(row, written_ms, now, wall_ms), ages_.LeastAgeMs(now, row));
}

// By either clock, so that neither a clock set back nor a restart gives it more time.
Millis LedgerClock::TimeLeft(const ApprovalFacts& facts) const {
  const MonoTime now = clock_.Now();
  // Asked by an earlier process, at a time that is still to come: nobody knows how long ago.
  if (!IsOfThisProcess(facts.asked_row) && WallMs() < facts.asked_ms) return kNoTimeLeft;
  const std::int64_t age_ms = jumps_.AgeMs(facts.asked_row, facts.asked_ms, now, WallMs());
  const std::int64_t lived_ms = ages_.LivedMs(now) - facts.asked_lived_ms;
  return Millis(facts.expires_ms - std::max({age_ms, lived_ms, std::int64_t{0}}));
}

bool LedgerClock::MayBeOlder(std::uint64_t row, std::int64_t written_ms, Millis age) const {
  const MonoTime now = clock_.Now();
  const std::int64_t wall_ms = WallMs();
  const std::int64_t by_wall = wall_ms - written_ms;
  const std::int64_t lived = jumps_.AgeMs(row, written_ms, now, wall_ms);
  const bool went_back = by_wall < 0 || lived - by_wall >= ClockJumps::kNoticedMs ||
                         (went_back_before_start_ && !IsOfThisProcess(row));
  return went_back || std::max(by_wall, lived) > age.count() || ages_.OldThrough(now, age) >= row;
}

}  // namespace recourse
