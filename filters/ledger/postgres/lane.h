// The thread of a ledger in PostgreSQL: it takes the whole queue, and lets its verbs, lists and
// marks share round trips. While the database is away what begins waits a little and is refused,
// and what has ended waits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "filters/ledger/postgres/batches.h"
#include "filters/ledger/postgres/lists.h"
#include "filters/ledger/postgres/open.h"
#include "filters/ledger/postgres/store.h"
#include "filters/ledger/postgres/stream_lease.h"
#include "filters/ledger/postgres/waits.h"

namespace recourse {

class PgLane {
 public:
  PgLane(const PgLedgerOptions& options, const Clock& clock);
  ~PgLane() { Stop(); }
  // Refuses what is new and finishes what is queued, if the database answers.
  void Stop();
  // Connects and begins a stream. Once, before anything else.
  std::expected<void, Unopened> Start();

  using Request =
      std::variant<std::unique_ptr<PgVerb>, JoinWait*, PgListWait, std::shared_ptr<PgNoteWait>>;
  // Thread-safe. `begins`: it can be refused at once while the database is away.
  Result<void> Submit(Request request, std::size_t queue_max, bool begins = false);
  // The newest of an operation counts. Thread-safe. False: there is no room.
  bool Note(const PgMark& mark, std::size_t queue_max);
  std::uint64_t stream() const { return stream_; }                 // thread-safe
  const Clock& group_clock() const { return local_.group_clock; }  // thread-safe
  GroupPast past() const { return past_; }
  // While something of a dead process is being taken over this one is watched, and from then on
  // for what has become its work. Thread-safe.
  void SetTaking(bool is_taking);
  bool has_said_taking() const { return lease_.said_taking(); }  // thread-safe
  bool is_away() const;                                          // the database; thread-safe
  // It sends a batch, if only an empty one, and so finds out what has become of its stream.
  // Thread-safe.
  void Beat();
  // As of its lease. Thread-safe.
  void SetAges(Millis too_old, Millis every) { lease_.SetAges(too_old, every); }
  LedgerStats Stats() const;          // thread-safe; what this process knows by itself
  SharedLedgerCounts Counts() const;  // thread-safe; but for takeovers
  // Before the first verb.
  void set_observer(std::function<void(double, std::size_t)> observer) {
    batches_.set_observer(std::move(observer));
  }

 private:
  void Run();
  bool WaitForWork();
  void Sort(Request request);
  void Work();
  void Serve();
  bool IsBeatDue();
  bool IsReady();
  void TellLate(Millis unanswered);
  bool FlushMarks();
  std::vector<PgMark> TakeMarks();
  bool Write(const std::vector<PgMark>& marks);
  void Shutdown();
  void Publish();

  // constant after construction
  const PgLedgerOptions options_;
  const Clock& clock_;

  // owned by the lane's thread
  LocalFacts local_;
  PgStore store_;
  PgStreamLease lease_;
  PgJobs jobs_;
  PgBatches batches_;
  PgLists lists_;
  std::vector<Request> taken_;
  std::map<std::uint64_t, PgMark> marks_;  // by operation
  Millis reconnect_after_{};               // not 0: the database is away
  std::optional<MonoTime> late_at_{};      // then the first that waits will have waited too long
  std::string away_told_;                  // why, as people were told last
  bool marks_are_refused_ = false;         // nothing else is written before them
  std::string marks_told_;                 // why, as people were told last

  GroupPast past_;  // constant after Start()
  std::atomic<std::uint64_t> stream_ = 0;
  std::atomic<bool> is_taking_ = false;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Request> queue_;            // guarded by mutex_
  std::vector<PgMark> new_marks_;         // guarded by mutex_
  std::optional<MonoTime> marks_due_;     // guarded by mutex_; unset: there is none
  bool counts_work_ = false;              // guarded by mutex_
  bool is_stopping_ = false;              // guarded by mutex_
  std::optional<MonoTime> away_since_{};  // guarded by mutex_
  LedgerStats stats_;                     // guarded by mutex_
  SharedLedgerCounts counts_;             // guarded by mutex_

  std::thread thread_;
};

}  // namespace recourse
