// What operators ask of a ledger in PostgreSQL that its lane has no part in: over a connection
// beside it, about all streams of the group.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/postgres/placed_log.h"
#include "filters/ledger/postgres/reader.h"
#include "filters/ledger/queries/operation_queries.h"
#include "filters/ledger/shared_view.h"

namespace recourse {

// How long the group's next turn at retention waits after the one before.
Millis KeeperEvery(const LedgerRule& rule);

// The age of rows that no turn in time would have left.
Millis KeptTooLong(const LedgerRule& rule);

// What no turn in time would have left is old. Fails with a line for people.
std::expected<KeptRows, std::string> ReadPgKeptRows(PgReader& reader, const std::string& group,
                                                    const LedgerRule& rule);

// The policies of a group's processes: their texts, and who has which in force. Thread-safe;
// blocks.
class PgSharedPolicies {
 public:
  PgSharedPolicies(PgReader& reader, std::string group)
      : reader_(reader), group_(std::move(group)) {}

  // The process of that stream has it, and will take it into force. Fails with a line for people.
  std::expected<void, std::string> Share(const std::string& version, std::string_view packed,
                                         std::uint64_t stream);
  // Likewise; where it fails, OfGroup() says it.
  std::expected<void, std::string> TakeIntoForce(const std::string& version, std::uint64_t stream);
  Result<std::optional<std::string>> Find(const std::string& version);
  // Says again what the others said last, as `own` may be another stream by now.
  Result<SharedLedgerView::Versions> OfGroup(std::uint64_t own);

 private:
  Digest NameOf(const std::string& version) const;
  std::expected<void, std::string> Note(std::uint64_t stream);

  PgReader& reader_;
  const std::string group_;
  std::mutex mutex_;
  std::string in_force_, next_;  // guarded by mutex_: here; of both, none is empty
};

// What is counted of all processes of a group: as it is, or as it was when the database answered
// last. Thread-safe; blocks. `reader` and `clock` outlive it.
class PgGroupCounter {
 public:
  PgGroupCounter(PgReader& reader, std::string group, const Clock& clock)
      : reader_(reader), group_(std::move(group)), clock_(clock) {}

  ~PgGroupCounter();
  // Counts, and goes on to count on a thread of its own. Once, before the rest.
  void Start();
  // Has it counted anew, for which it waits no longer than a second, and tells it beside what the
  // process itself knows.
  void AddTo(LedgerStats& stats);
  // As of the last time.
  void AddTo(SharedLedgerCounts& counts) const;

 private:
  struct Counts {
    std::int64_t at_ms = 0;  // when it was so
    std::uint64_t uncertain = 0, used_bytes = 0;
    std::size_t approvals_pending = 0;
    std::size_t flows_open = 0, flows_breaking = 0, flows_parked = 0, flows_stopped = 0;
    std::int64_t oldest_unknown_ms = 0, flows_parked_since_ms = 0;  // 0: there is none
    bool restored = false;
  };

  void Run();
  void Look();
  void LookSoon(std::unique_lock<std::mutex>& lock);

  PgReader& reader_;
  const std::string group_;
  const Clock& clock_;
  std::atomic<bool> answers_ = true;
  std::atomic<std::uint64_t> orphaned_work_ = 0, asynchronous_standbys_ = 0;
  std::mutex mutex_;
  std::optional<Counts> counts_;         // guarded by mutex_; unset: never answered
  std::condition_variable wake_, done_;  // of the thread; of who waits for it
  std::uint64_t asked_ = 0, told_ = 0;  // guarded by mutex_: the newest turn, and the last one done
  MonoTime began_{};                    // guarded by mutex_: the turn that goes on
  bool is_stopping_ = false;            // guarded by mutex_
  std::thread thread_;
};

class PgOperatorsLedger : public Ledger, public OperationLister, public SharedLedgerView {
 public:
  Result<EventPage> List(const EventFilter& filter) override;
  Result<std::optional<Event>> Find(std::uint64_t id) override;
  Result<OperationPage> Operations(const OperationFilter& filter) override;
  Result<std::optional<FlowState>> FindFlow(std::uint64_t number) override;
  Result<std::vector<FlowState>> NewestFlows(std::size_t limit) override;
  std::expected<void, std::string> AcceptRestoredBackup() override;
  std::expected<std::unique_ptr<LedgerCopy>, std::string> StartCopy() override;
  const Clock& GroupClock() const override { return *of_.group_clock(); }
  const std::string& Group() const override { return of_.group; }
  Result<std::vector<LedgerStream>> Streams() override;
  Result<KeptRows> Kept(const LedgerRule& rule) override;
  std::string PodOf(std::uint64_t stream) override;
  Result<NewsPlace> NewsEnd() override { return news_.End(); }
  Result<News> NewsAfter(const NewsPlace& place, const EventFilter& filter) override {
    return news_.After(place, filter);
  }
  std::expected<void, std::string> SharePolicy(const std::string& version,
                                               std::string_view packed) override {
    return policies_.Share(version, packed, of_.own());
  }
  std::expected<void, std::string> PolicyInForce(const std::string& version) override {
    return policies_.TakeIntoForce(version, of_.own());
  }
  Result<std::optional<std::string>> SharedPolicy(const std::string& version) override {
    return policies_.Find(version);
  }
  Result<Versions> PoliciesOfGroup() override { return policies_.OfGroup(of_.own()); }

 protected:
  struct Of {
    PgOptions connection;
    std::string group;
    std::shared_ptr<const LedgerKeys> keys;
    const Clock& clock;
    std::function<std::uint64_t()> own;  // stream of this process; thread-safe
    std::function<const Clock*()> group_clock;
  };
  explicit PgOperatorsLedger(Of of)
      : of_(std::move(of)),
        reader_(of_.connection, kPgPatience),
        policies_(reader_, of_.group),
        counter_(reader_, of_.group, of_.clock),
        news_(reader_, of_.group, of_.keys) {}
  PgReader& reader() { return reader_; }
  PgGroupCounter& counter() { return counter_; }

 private:
  // A server that is there, but stopped, is worth no longer wait of an operator's thread.
  static constexpr Millis kPgPatience{2'000};

  const Of of_;
  PgReader reader_;
  PgSharedPolicies policies_;
  PgGroupCounter counter_;
  PgNews news_;
};

}  // namespace recourse
