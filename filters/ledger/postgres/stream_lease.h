// The right of one process's stream to send, and to be left to it: what its lane does for that
// beside writing rows. One thread.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "filters/ledger/lease/send_guard.h"
#include "filters/ledger/postgres/store.h"

namespace recourse {

class PgStreamLease {
 public:
  // Both outlive it.
  PgStreamLease(LocalFacts& local, PgStore& store) : local_(local), store_(store) {}

  // Connected: from now on it is that of the stream that was begun last.
  void Take();
  // As the store's, of whose batches it counts from their first sending.
  BatchEnd Commit(std::vector<PlannedRows>& plans, const std::vector<NoteRow>& notes);
  void Confirm() {
    guard_->guard.Acknowledge(sent_);
    said_taking_ = local_.is_taking;
  }
  // The database has been told that a dead process is being taken over.
  bool said_taking() const { return said_taking_; }  // thread-safe
  // The stream was taken over, or is given up.
  void End();
  // How long until an empty batch has to go: soon while something is open, or `is_taking`, as a
  // dead process is being taken over; else once in a while, as a sign of life for people.
  BootClock::duration BeatIn(bool is_taking) const;
  // Finds out what waits longer than a call and is this process's to do. False: the database is
  // away.
  bool CountWork(bool is_taking);
  // Every kClockMeasuredEvery what the database's clock says. False: it is away.
  bool MeasureClock();
  // While the ledger is restored: whether somebody has accepted that by now.
  void LookRestored();
  // From then on: rows are too old at that age, and every so often it looks for some. Thread-safe.
  void SetAges(Millis too_old, Millis every) {
    looks_every_ = every;
    too_old_ = too_old;
  }
  // Retention removes a stream's rows from its front, so that what is open for long holds all that
  // its process writes behind it. True: this one is such, nothing that is on its way stands under
  // its number, and it is handed over: another one is to be begun. `is_idle`: only what begins
  // waits for the lane.
  bool HandsOverHeldRows(bool is_idle);
  // A stream is to be left as soon as what is on its way has ended.
  bool pauses_begins() const { return local_.clock.Now() < pause_ends_; }
  // Nobody has to wait until this process is taken for dead.
  void HandOver();

 private:
  struct Guard {
    KernelWatchdog watchdog;
    SendGuard guard{watchdog};
  };
  bool has_open() const {
    return !store_.open().empty() || local_.work.size() > 0 || local_.is_taking ||
           !local_.clients.empty();
  }

  bool HoldsOldRows();

  LocalFacts& local_;
  PgStore& store_;
  MonoTime looked_{};        // for old rows
  bool is_leaving_ = false;  // it holds some
  MonoTime pause_ends_{};
  std::atomic<Millis> too_old_{Millis(0)}, looks_every_{Millis(0)};  // 0: nothing ever is
  std::uint64_t stream_ = 0;                                         // that it is of
  std::shared_ptr<Guard> guard_;
  BootTime sent_{};
  bool said_open_ = false;
  std::atomic<bool> said_taking_ = false;
};

}  // namespace recourse
