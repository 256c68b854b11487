#include "filters/ledger/postgres/stream_lease.h"

#include <algorithm>
#include <chrono>

#include "filters/ledger/postgres/schema.h"

namespace recourse {
namespace {

constexpr PgStatement kOwned{"owned", "SELECT count(*) FROM work WHERE owner = $1::bigint"};
// Whoever lists the streams next takes over what is left of it.
constexpr PgStatement kHandOver{
    "hand_over",
    "UPDATE stream SET taken_by = NULL, state = CASE WHEN $2::bigint > 0 OR EXISTS"
    " (SELECT 1 FROM work WHERE owner = $1::bigint) THEN 2 ELSE 3 END"
    " WHERE stream = $1::bigint AND state = 1"};

constexpr PgStatement kHeld{"held", "SELECT held FROM stream WHERE stream = $1::bigint"};

std::size_t NewWorkIn(const std::vector<PlannedRows>& plans) {
  std::ptrdiff_t count = 0;
  for (const PlannedRows& planned : plans) {
    count += std::ranges::count_if(planned.changes.work,
                                   [](const WorkChange& change) { return !change.is_done; });
  }
  return static_cast<std::size_t>(count);
}

}  // namespace

void PgStreamLease::Take() {
  if (stream_ == store_.stream()) return;
  End();
  stream_ = store_.stream();
  guard_ = std::make_shared<Guard>();
  sent_ = BootClock::now();
  local_.permit = std::shared_ptr<SendPermit>(guard_, &guard_->guard);
}

// What is done is counted with the next beat.
BatchEnd PgStreamLease::Commit(std::vector<PlannedRows>& plans, const std::vector<NoteRow>& notes) {
  sent_ = BootClock::now();
  local_.owned += NewWorkIn(plans);
  const BatchEnd end = store_.Commit(plans, notes);
  said_open_ = has_open();
  return end;
}

void PgStreamLease::End() {
  if (guard_ != nullptr) guard_->guard.End();
  local_.owned = 0;
  said_open_ = false;
}

BootClock::duration PgStreamLease::BeatIn(bool is_taking) const {
  const auto due = BeatDue(has_open() || said_open_ || is_taking, sent_);
  return due.value_or(sent_ + std::chrono::seconds(kSignOfLifeS)) - BootClock::now();
}

bool PgStreamLease::CountWork(bool is_taking) {
  store_.connection().Queue(kOwned, PgArguments().Int(static_cast<std::int64_t>(stream_)));
  const auto owned = store_.connection().Run();
  if (!owned) return false;
  local_.owned = owned->front().Number(0, 0) + (is_taking ? 1 : 0);
  return true;
}

void PgStreamLease::LookRestored() {
  if (!local_.is_restored) return;
  store_.connection().Queue(kHeld, PgArguments().Int(AsInt(store_.stream())));
  const auto held = store_.connection().Run();
  if (held && held->front().size() == 1) local_.is_restored = held->front().Int(0, 0) != 0;
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
