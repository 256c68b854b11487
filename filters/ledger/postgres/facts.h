// What the rules ask for, answered from rows that were read and from what this process knows.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "filters/ledger/lease/clients.h"
#include "filters/ledger/postgres/changes.h"
#include "filters/ledger/postgres/read_rows.h"
#include "filters/ledger/replay_counts.h"
#include "filters/ledger/rules/known.h"
#include "filters/ledger/rules/quotas.h"
#include "filters/ledger/rules/refusal_pace.h"
#include "filters/ledger/rules/stored_bytes.h"
#include "filters/ledger/shared_view.h"
#include "proxy/base/send_permit.h"
#include "proxy/base/shared_clock.h"

namespace recourse {

// What the database refuses to write, though it answers. One thread.
class PgRefusals {
 public:
  // What rows are of; kBeat: of no call, or there are none. Marks are no rows.
  enum class Of : std::uint8_t { kCall, kOutcome, kMark, kBeat, kOther };

  // It stands until such rows are taken.
  void Add(Of what, const PgFailure& why) { by_[what] = why.text; }
  // People are told once, however often it is tried again.
  void Tell(const PgFailure& why);
  void End(Of what);
  bool empty() const { return by_.empty(); }
  bool Has(Of what) const { return by_.contains(what); }
  // For what no call begins; empty: they do.
  std::string Why() const;

 private:
  std::map<Of, std::string> by_;
  std::string told_;
};

// What this process knows by itself. One thread.
struct LocalFacts {
  const Clock& clock;
  RowDecryptor opener;
  QuotaUsage callers{};
  StoredBytes stored{};      // of what they have of it
  MonoTime stored_looked{};  // what of that is removed by now
  RefusalPace pace{};
  ReplayCounts replays{};
  std::size_t open = 0;      // operations of this process that are not over
  bool is_restored = false;  // the database went back, and nobody has accepted that: begins nothing
  // When the group's last word that accepted that was said, by the database's clock; 0: none.
  std::int64_t accepted_ms = 0;
  // That clock has gone back since the row of this place was written, or may have.
  std::uint64_t went_back_place = 0;
  PgFailure refusal{};  // by which the database did not write the last batch that it refused
  PgRefusals refusals{};
  GroupPast past{};
  PgOwnWork work{};
  std::uint64_t stream = 0;  // of this process
  OwnClients clients{};
  bool is_taking = false;                // work of a dead process is becoming this one's
  std::shared_ptr<SendPermit> permit{};  // of what its stream begins; null: it needs none
  std::array<std::uint64_t, kQuotaKindCount> quota_refusals{};
  SharedLedgerCounts shared{};  // but for takeovers, and whether it is up
  // The database's, as it was measured last: rows are dated by it.
  SharedClock group_clock{clock};
  bool is_measured = false;  // from time to time; else a test moves it
  MonoTime measured{};

  std::int64_t WallMs() const { return ToUnixMillis(group_clock.WallNow()); }
  std::int64_t LivedMs() const { return WallMs(); }
};

// The facts of one verb.
class VerbFacts {
 public:
  // `elsewhere` outlives it; a verb that begins no call has none.
  VerbFacts(LocalFacts& local, bool guesses, ClientsElsewhere* elsewhere = nullptr)
      : local_(local), elsewhere_(elsewhere), rows_(local.opener, guesses) {}

  // Puts what can be said into `known`; the rest is wished for.
  void Answer(Known& known, const std::vector<Subject>& needs);
  ReadRows& rows() { return rows_; }
  // When it is to be decided anew, on what is there then; nullopt: nothing has to be awaited.
  std::optional<MonoTime> later() const { return later_; }

 private:
  template <class Fact>
  using Maybe = ReadRows::Maybe<Fact>;

  Maybe<std::optional<FoundOperation>> Find(const KeyAt& asked);
  Maybe<std::optional<FoundOperation>> Find(const OperationOf& asked);
  Maybe<std::optional<ApprovalState>> Find(const ApprovalOf& asked);
  Maybe<std::vector<ApprovalState>> Find(const ApprovalsIn& asked);
  Maybe<std::optional<FlowState>> Find(const FlowNumbered& asked);
  Maybe<FlowNamed::Fact> Find(const FlowNamed& asked);
  Maybe<Event> Find(const EventAt& asked);
  Maybe<EventFront> Find(const FrontOf& asked);
  Maybe<std::optional<std::uint64_t>> Find(const IntentOf& asked);
  Maybe<std::optional<std::uint64_t>> Find(const MarkSince& asked);
  Maybe<bool> Find(const RoomFor& asked);
  Maybe<std::optional<std::uint32_t>> Find(const GenerationOf& asked);
  Maybe<AnswerAt::Fact> Find(const AnswerAt& asked);
  Maybe<bool> Find(const OthersWait& asked);
  Maybe<std::vector<OpenWritesAt::Open>> Find(const OpenWritesAt& asked);
  Maybe<std::int64_t> Find(const AgeOf& asked);
  Maybe<bool> Find(const KeyIsOver& asked);
  Maybe<FenceAt::Fact> Find(const FenceAt& asked);
  Maybe<std::optional<Millis>> Find(const TryOf& asked);
  Maybe<int> Find(const ReplaysOf& asked);
  Maybe<std::optional<Error>> Find(const AdmissionOf& asked);

  // The quota that one more attempt would exceed, once it is known what has been removed.
  std::optional<std::optional<QuotaKind>> Exceeded(const AdmissionOf& asked);
  std::optional<Error> RefusalOf(const AdmissionOf& asked, std::uint64_t waiting, std::size_t all);

  LocalFacts& local_;
  ClientsElsewhere* const elsewhere_;
  ReadRows rows_;
  std::optional<MonoTime> later_{};
};

// How long an approval still stands.
Millis TimeLeft(const ApprovalFacts& facts, std::int64_t wall_ms);

}  // namespace recourse
