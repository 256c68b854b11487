#include "filters/ledger/postgres/stream_lease.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/batch_sql.h"
#include "filters/ledger/postgres/schema.h"
#include "filters/ledger/rules/clock_jumps.h"
#include "proxy/base/lease_limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr PgStatement kOwned{"owned", "SELECT count(*) FROM work WHERE owner = $1::bigint"};
constexpr PgStatement kOwnedWork{
    "owned_work", "SELECT kind::bigint, stream, number FROM work WHERE owner = $1::bigint"};
// Whoever lists the streams next takes over what is left of it.
constexpr PgStatement kHandOver{
    "hand_over",
    "UPDATE stream SET taken_by = NULL, state = CASE WHEN $2::bigint > 0 OR EXISTS"
    " (SELECT 1 FROM work WHERE owner = $1::bigint) THEN 2 ELSE 3 END"
    " WHERE stream = $1::bigint AND state = 1"};
constexpr PgStatement kHoldsOld{
    "holds_old",
    "SELECT 1 FROM stream s JOIN event e ON e.stream = s.stream AND e.number = s.base + 1"
    " WHERE s.stream = $1::bigint AND s.base + 1 < s.head"
    " AND e.at < now() - $2::bigint * interval '1 ms'"};
constexpr PgStatement kNextPlace{"next_place", "SELECT nextval('place') << 12"};
constexpr PgStatement kHeld{"held", "SELECT held FROM stream WHERE stream = $1::bigint"};

}  // namespace

void PgStreamLease::Take() {
  if (stream_ == store_.stream()) return;
  End();
  stream_ = store_.stream();
  guard_ = std::make_shared<Guard>();
  sent_ = BootClock::now();
  local_.permit = std::shared_ptr<SendPermit>(guard_, &guard_->guard);
}

BatchEnd PgStreamLease::Commit(std::vector<PlannedRows>& plans, const std::vector<NoteRow>& notes) {
  sent_ = BootClock::now();
  const BatchEnd end = store_.Commit(plans, notes);
  said_open_ = has_open();
  return end;
}

void PgStreamLease::End() {
  if (guard_ != nullptr) guard_->guard.End();
  local_.is_taking = false;
  said_open_ = false;
  said_taking_ = false;
}

BootClock::duration PgStreamLease::BeatIn(bool is_taking) const {
  const auto due = BeatDue(has_open() || said_open_ || is_taking, sent_);
  return due.value_or(sent_ + std::chrono::seconds(kSignOfLifeS)) - BootClock::now();
}

// What others have taken or done since is found by its number.
bool PgStreamLease::CountWork(bool is_taking) {
  local_.is_taking = is_taking;
  if (!is_taking) said_taking_ = false;
  const PgArguments own = PgArguments().Int(AsInt(stream_));
  store_.connection().Queue(kOwned, own);
  const auto count = store_.connection().Run();
  if (!count) return false;
  if (count->front().Number(0, 0) == local_.work.size()) return true;
  store_.connection().Queue(kOwnedWork, own);
  const auto rows = store_.connection().Run();
  if (!rows) return false;
  std::set<PgOwnWork::Name> work;
  for (int row = 0; row < rows->front().size(); ++row) {
    const auto stream = static_cast<std::uint32_t>(rows->front().Int(row, 1));
    work.emplace(static_cast<WorkKind>(rows->front().Int(row, 0)),
                 PackRowId({stream, rows->front().Number(row, 2)}));
  }
  local_.work.Become(std::move(work));
  return true;
}

bool PgStreamLease::MeasureClock() {
  const MonoTime asked = local_.clock.Now();
  if (!local_.is_measured || asked - local_.measured < limits::kClockMeasuredEvery) return true;
  const std::int64_t asked_ms = local_.WallMs();
  store_.connection().Queue(kPgNow);
  const auto now = store_.connection().Run();
  if (!now) return store_.is_connected();
  const std::int64_t before = local_.WallMs();
  local_.group_clock.Measure(WallTime(Millis(now->front().Int(0, 0))), asked);
  local_.measured = local_.clock.Now();
  const std::int64_t jump = now->front().Int(0, 0) - before;
  if (now->front().Int(0, 0) <= asked_ms - ClockJumps::kNoticedMs) {
    store_.connection().Queue(kNextPlace);
    const auto place = store_.connection().Run();
    if (!place) return store_.is_connected();
    local_.went_back_place = place->front().Number(0, 0);
  }
  if (std::abs(jump) > limits::kClockJumpTold.count()) {
    Log(LogLevel::kWarn,
        "the clock of the ledger's database has jumped: what ends by it ends earlier or later",
        {{"milliseconds", std::to_string(jump)}});
  }
  return true;
}

void PgStreamLease::LookRestored() {
  if (!local_.is_restored) return;
  store_.connection().Queue(kHeld, PgArguments().Int(AsInt(store_.stream())));
  const auto held = store_.connection().Run();
  if (!held || held->front().size() != 1 || held->front().Int(0, 0) != 0) return;
  const auto accepted_ms = ReadPgAcceptedMs(store_.connection(), store_.group());
  if (!accepted_ms) return;
  local_.accepted_ms = *accepted_ms;
  local_.is_restored = false;
}

bool PgStreamLease::HoldsOldRows() {
  store_.connection().Queue(kHoldsOld,
                            PgArguments().Int(AsInt(stream_)).Int(too_old_.load().count()));
  const auto held = store_.connection().Run();
  return held && held->front().size() > 0;
}

bool PgStreamLease::HandsOverHeldRows(bool is_idle) {
  const MonoTime now = local_.clock.Now();
  if (too_old_.load() == Millis(0) || local_.is_restored) return false;
  const Millis every = looks_every_.load();
  if (now - looked_ >= every) {
    looked_ = now;
    is_leaving_ = HoldsOldRows();
    const Millis pause = std::min(limits::kBeginsPausedMax, every / limits::kBeginsPausedShare);
    if (is_leaving_) pause_ends_ = now + pause;
  }
  // What it sends, and whose clients wait; and what it is taking over.
  const bool is_busy = !store_.open().empty() || !local_.clients.empty() || local_.is_taking;
  if (!is_leaving_ || !is_idle || is_busy) return false;
  is_leaving_ = false;
  pause_ends_ = MonoTime();
  Log(LogLevel::kInfo, "old rows are held by what is open; this process goes on under a new stream",
      {{"stream", std::to_string(stream_)}});
  HandOver();
  return true;
}

void PgStreamLease::HandOver() {
  if (!store_.is_connected()) return;
  store_.connection().Queue(kHandOver, PgArguments()
                                           .Int(static_cast<std::int64_t>(stream_))
                                           .Int(static_cast<std::int64_t>(store_.open().size())));
  (void)store_.connection().Run();
  End();
}

}  // namespace recourse
