// What the rules ask for, answered from the database: each verb keeps what it has read, says what
// it still lacks, and all that many verbs lack is read in one round trip.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/stored.h"
#include "filters/ledger/replay_counts.h"
#include "filters/ledger/rules/known.h"
#include "filters/ledger/rules/quotas.h"
#include "filters/ledger/rules/refusal_pace.h"

namespace recourse {

// What a verb lacks.
struct Wishes {
  std::set<Uuid> keys, intents, flows, histories;
  std::set<std::uint64_t> operations, rows;
  bool open_writes = false, claims = false;

  bool empty() const {
    return keys.empty() && intents.empty() && flows.empty() && histories.empty() &&
           operations.empty() && rows.empty() && !open_writes && !claims;
  }
  void Add(const Wishes& more);
};

// What was read, of one verb or of many.
struct Fetched {
  Versions versions;
  std::map<std::uint64_t, std::optional<Uuid>> keys_of;  // of operations
  std::map<std::uint64_t, StoredRow> rows;
  std::map<Uuid, std::vector<StoredRow>> histories;        // rows of a flow's name, in their order
  std::optional<std::vector<std::uint64_t>> open, claims;  // operations
};

// Reads what is wished for. A round trip, two where rows name further ones.
std::expected<Fetched, PgFailure> Fetch(PgConnection& connection, const Wishes& wishes,
                                        const std::string& group);

// What this process knows by itself. One thread.
struct LocalFacts {
  const Clock& clock;
  RowDecryptor opener;
  QuotaUsage callers{};
  RefusalPace refusals{};
  ReplayCounts replays{};
  std::size_t open = 0;  // operations of this process that are not over
  std::array<std::uint64_t, kQuotaKindCount> quota_refusals{};
  // Rows are dated by the database's clock as it was at the start, and by what was lived through
  // since then.
  MonoTime started{};
  std::int64_t started_wall_ms = 0;
  bool own_time = false;  // by this process's clock instead

  std::int64_t WallMs() const {
    if (own_time) return ToUnixMillis(clock.WallNow());
    return started_wall_ms + (clock.Now() - started) / Millis(1);
  }
  std::int64_t LivedMs() const { return WallMs(); }
};

// The facts of one verb.
class VerbFacts {
 public:
  // `guesses`: what nobody has read yet is taken to be new. Whatever is decided on that is compared
  // before it is written.
  VerbFacts(LocalFacts& local, bool guesses) : local_(local), guesses_(guesses) {}

  // Puts what can be said into `known`; the rest is wished for.
  void Answer(Known& known, const std::vector<Subject>& needs);
  void Take(const Fetched& fetched);
  const Wishes& wishes() const { return wishes_; }
  void ForgetWishes() { wishes_ = Wishes(); }
  const Versions& versions() const { return fetched_.versions; }
  bool has_guessed() const { return has_guessed_; }

  // nullptr: wished for. A version of 0: there is none.
  const StoredOperation* Operation(const Digest& key);
  const StoredIntent* Intent(const Digest& digest);
  const StoredFlow* Flow(const Digest& key);
  // What this process has written last. Another one may have gone on since then, so that it too is
  // compared before anything is written.
  void Remember(const Uuid& key, const StoredFlow& flow) { fetched_.versions.flows[key] = flow; }
  void Remember(const Uuid& key, const StoredOperation& operation, StoredRow row) {
    fetched_.versions.operations[key] = operation;
    fetched_.keys_of[operation.operation] = key;
    fetched_.rows[operation.last_event] = std::move(row);
    has_guessed_ = true;
  }

  struct ByOperation {
    Digest key{};  // whole
    const StoredOperation* stored = nullptr;
  };
  // nullopt: wished for. `stored` is null where there is no such operation.
  std::optional<ByOperation> OfOperation(std::uint64_t operation);
  std::optional<Result<std::optional<FoundOperation>>> Found(std::uint64_t operation);
  const StoredRow* Row(std::uint64_t row);
  // The flow of that name that is not over.
  std::optional<Result<std::optional<FlowState>>> State(const Digest& key);

 private:
  template <class Fact>
  using Maybe = std::optional<Result<Fact>>;  // nullopt: wished for

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
  Maybe<std::optional<Event>> Find(const AnswerAt& asked);
  Maybe<bool> Find(const OthersWait& asked);
  Maybe<std::vector<OpenWritesAt::Open>> Find(const OpenWritesAt& asked);
  Maybe<std::int64_t> Find(const AgeOf& asked);
  Maybe<bool> Find(const KeyIsOver& asked);
  Maybe<FenceAt::Fact> Find(const FenceAt& asked);
  Maybe<std::optional<Millis>> Find(const TryOf& asked);
  Maybe<int> Find(const ReplaysOf& asked);
  Maybe<std::optional<Error>> Find(const AdmissionOf& asked);

  Maybe<Event> Decode(std::uint64_t row, AnswerPart part);
  Maybe<std::optional<FoundOperation>> FoundAt(const Digest& key, const StoredOperation& stored);
  std::optional<Error> RefusalOf(const AdmissionOf& asked, std::uint64_t waiting, std::size_t all);

  LocalFacts& local_;
  const bool guesses_;
  bool has_guessed_ = false;
  Fetched fetched_;
  Wishes wishes_;
};

// How long an approval still stands.
Millis TimeLeft(const ApprovalFacts& facts, std::int64_t wall_ms);

}  // namespace recourse
