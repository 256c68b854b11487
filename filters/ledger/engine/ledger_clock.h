// How old things in the ledger are: by the wall clock, whose jumps are known, and by the time that
// was lived through.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "filters/ledger/model/approval.h"
#include "filters/ledger/rules/clock_jumps.h"
#include "filters/ledger/rules/row_ages.h"
#include "proxy/base/clock.h"

namespace recourse {

// One thread at a time.
class LedgerClock {
 public:
  // `ages` is what EventLog::LoadAges gives.
  LedgerClock(const Clock& clock, std::string_view ages, std::uint64_t last_row);

  MonoTime Now() const { return clock_.Now(); }
  std::int64_t WallMs() const { return ToUnixMillis(clock_.WallNow()); }
  std::int64_t LivedMs() const { return ages_.LivedMs(clock_.Now()); }
  RowAges& ages() { return ages_; }
  const RowAges& ages() const { return ages_; }

  // `row` is written now. Gives the wall time.
  std::int64_t NoteRow(std::uint64_t row);
  // Rows from `first` on are this process's. `last_wall_ms` is that of the row before; nullopt:
  // there is none that can be read.
  void BeginProcess(std::uint64_t first, std::optional<std::int64_t> last_wall_ms);
  bool IsOfThisProcess(std::uint64_t row) const { return row >= process_first_row_; }

  // The age of `row`, which says it was written at `written_ms`.
  std::int64_t AgeMs(std::uint64_t row, std::int64_t written_ms) const;
  // When it was written, by a wall clock that says what it says now.
  std::int64_t DatedMs(std::uint64_t row, std::int64_t written_ms) const;
  // Until what was asked for is too late.
  Millis TimeLeft(const ApprovalFacts& facts) const;
  // Whether the row may be older than that. Whatever makes its age doubtful makes it so.
  bool MayBeOlder(std::uint64_t row, std::int64_t written_ms, Millis age) const;

 private:
  const Clock& clock_;
  ClockJumps jumps_;
  RowAges ages_;
  std::uint64_t process_first_row_ = 0;
  bool went_back_before_start_ = false;  // the wall clock, between this start and the row before it
};

}  // namespace recourse
