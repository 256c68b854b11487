// The verbs that write, from their first look to the commit of their batch. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "filters/ledger/postgres/store.h"
#include "filters/ledger/postgres/stream_lease.h"
#include "filters/ledger/postgres/verbs.h"
#include "filters/ledger/postgres/waits.h"

namespace recourse {

class PgBatches {
 public:
  // All of them outlive it.
  PgBatches(LocalFacts& local, PgStore& store, PgStreamLease& lease, PgJobs& jobs)
      : local_(local), store_(store), lease_(lease), jobs_(jobs) {}

  void Add(std::unique_ptr<PgVerb> verb);
  void Add(std::shared_ptr<PgNoteWait> note) { notes_.Add(std::move(note)); }
  // When there is something to commit; max: once something is added.
  Millis DueIn() const;
  bool only_begins() const;  // is what waits for a commit
  // Commits one batch of what is there; with `may_be_empty` also one without rows, which shows
  // that this process lives. False: the database is away.
  bool Commit(bool may_be_empty = false);
  // Connected again: what was in doubt is told. False: it still is.
  bool Resolve();
  // Who waits longer than that for the database is told so; also while an answer is awaited.
  // Returns when the next of them will have waited too long; unset: nobody will.
  std::optional<MonoTime> GiveUp(Millis wait);
  // What would begin for nobody is not kept, but for what may have been written.
  void DropAbandoned();
  void FailAll();
  // What waits for a commit begins under the next stream.
  void LeaveStream();
  // Once what they say is told by everything else, too.
  void TellNotes() { notes_.Tell(); }

  void set_observer(std::function<void(double, std::size_t)> observer) {
    observer_ = std::move(observer);
  }
  // What this process has begun and sends, and the commits of that.
  void Describe(LedgerStats& stats) const;
  // Operations that the batches since the last call were about.
  std::set<std::uint64_t> TakeChanged() { return std::exchange(changed_, {}); }

 private:
  void Restart(PgVerb& verb);
  bool Gather();
  void Begin();
  void GatherRound(Wishes& wishes);
  bool Consider(PgVerb& verb, Wishes& wishes);
  bool Accept(PgVerb& verb, Plan& plan, Wishes& wishes);
  void Plot(PgVerb& verb, Plan& plan);
  void Finish(BatchEnd end);
  void FinishDone();
  void Keep(const PlannedRows& planned);
  void Keep(const EventWrite& write, const Changes& changes);
  void Lose(PgVerb& verb);
  void Refuse(PgVerb& verb, const Error& why);
  void Drop(PgVerb& verb, Job job);

  // Operations that this process sends, as it wrote them last.
  struct Own {
    Uuid key{};
    StoredOperation operation;
    StoredRow row;
    QuotaUsage::Use* caller = nullptr;
  };

  LocalFacts& local_;
  PgStore& store_;
  PgStreamLease& lease_;
  PgJobs& jobs_;
  std::function<void(double, std::size_t)> observer_;
  std::deque<std::unique_ptr<PgVerb>> verbs_;
  using Accepted = std::pair<PgVerb*, Plan*>;
  std::vector<Accepted> accepted_;  // beside plans_
  std::vector<PlannedRows> plans_;
  BatchWrites writes_;               // of plans_
  std::uint64_t next_row_ = 0;       // behind plans_
  std::size_t bytes_ = 0;            // of plans_, about
  std::set<const PgVerb*> settled_;  // accepted, or left to the next batch
  PgNotes notes_;
  std::map<Uuid, StoredFlow> flows_;  // as this process wrote them last
  std::map<std::uint64_t, Own> own_;
  std::set<std::uint64_t> changed_;
  bool is_in_doubt_ = false;
  std::uint64_t commits_ = 0;
  std::uint64_t operations_ = 0;
};

}  // namespace recourse
