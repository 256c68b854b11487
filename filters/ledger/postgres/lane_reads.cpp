// What the lane of PostgresLedger reads without writing: lists, and operations that somebody waits
// for.
#include <algorithm>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/waits.h"
#include "filters/ledger/rows/event_log.h"

namespace recourse {
namespace {

constexpr Millis kPollFirst{20}, kPollMost{250};
constexpr int kListRoundsMax = 64;

// Its own calls are in memory; of what is unknown, or waits for humans, work tells.
constexpr PgStatement kOwnWork{
    "own_work",
    "SELECT stream, number FROM work WHERE owner = $1::bigint AND kind = 1"
    " AND (stream, number) > ($2::bigint, $3::bigint) ORDER BY stream, number LIMIT $4::bigint"};
constexpr PgStatement kApprovals{
    "approvals",
    "SELECT stream, number FROM work WHERE grp = $1::text AND kind = 2"
    " AND (stream, number) > ($2::bigint, $3::bigint) ORDER BY stream, number LIMIT $4::bigint"};
constexpr PgStatement kUnfinishedFlows{
    "unfinished_flows",
    "SELECT flow FROM flow WHERE grp = $1::text AND phase NOT IN (2, 5)"
    " AND (flow_stream, flow_number) > ($2::bigint, $3::bigint)"
    " ORDER BY flow_stream, flow_number LIMIT $4::bigint"};

PgArguments& AddPage(std::uint64_t after, std::size_t limit, PgArguments& arguments) {
  const RowId id = UnpackRowId(after);
  return arguments.Int(id.stream)
      .Int(static_cast<std::int64_t>(id.number))
      .Int(static_cast<std::int64_t>(limit));
}

std::vector<std::uint64_t> IdsIn(const PgRows& rows) {
  std::vector<std::uint64_t> ids;
  for (int row = 0; row < rows.size(); ++row) {
    ids.push_back(PackRowId({static_cast<std::uint32_t>(rows.Int(row, 0)), rows.Number(row, 1)}));
  }
  return ids;
}

Result<Event> LoadWhole(VerbFacts& facts, RowDecryptor& opener, std::uint64_t row) {
  const StoredRow* const stored = facts.Row(row);
  Result<Event> event(std::in_place);
  const auto view =
      stored != nullptr ? ParseRow(stored->bytes) : std::unexpected(std::string_view());
  if (!view || !DecodeEvent(*view, AnswerPart::kLoad, opener, *event)) {
    return std::unexpected(Unreadable(row));
  }
  return event;
}

}  // namespace

// Reads until `is_done` wishes for nothing more. False: the database is away.
bool PostgresLedger::Fill(VerbFacts& facts, const std::function<bool()>& is_done) {
  for (int round = 0; round < kListRoundsMax && !is_done(); ++round) {
    if (facts.wishes().empty()) return true;
    const auto fetched = store_.Read(facts.wishes());
    if (!fetched) return false;
    facts.Take(*fetched);
  }
  return true;
}

bool PostgresLedger::ServeReads() {
  while (!lists_.empty()) {
    const bool is_there = std::visit([this](auto* wait) { return Serve(*wait); }, lists_.front());
    if (!is_there) return false;
    std::visit([this](auto* wait) { Tell(wait->executor, [wait] { wait->done.Set(true); }); },
               lists_.front());
    lists_.erase(lists_.begin());
  }
  return true;
}

bool PostgresLedger::Serve(EventsWait& wait) {
  PgArguments arguments;
  arguments.Int(static_cast<std::int64_t>(store_.stream()));
  const auto work = Ask(kOwnWork, AddPage(wait.after, wait.limit, arguments));
  if (!work) return false;
  std::vector<std::uint64_t> ids = IdsIn(work->front());
  for (auto at = store_.open().upper_bound(wait.after); at != store_.open().end(); ++at) {
    ids.push_back(at->first);
  }
  std::ranges::sort(ids);
  if (ids.size() > wait.limit) ids.resize(wait.limit);
  VerbFacts facts(local_, false);
  const bool is_there = Fill(facts, [&] {
    bool has_all = true;
    for (const std::uint64_t id : ids) has_all = facts.Found(id).has_value() && has_all;
    return has_all;
  });
  if (!is_there) return false;
  std::vector<Event> events;
  for (const std::uint64_t id : ids) {
    const auto found = facts.Found(id);
    if (!found || !*found || !**found || !IsOpen((**found)->entry.phase)) continue;
    auto event = LoadWhole(facts, local_.opener, (**found)->entry.last_event);
    if (!event) {
      wait.result = std::unexpected(event.error());
      return true;
    }
    events.push_back(std::move(*event));
  }
  wait.result = std::move(events);
  return true;
}

bool PostgresLedger::Serve(ClaimsWait& wait) {
  PgArguments arguments;
  arguments.Bytes(store_.group());
  const auto work = Ask(kApprovals, AddPage(wait.after, wait.limit, arguments));
  if (!work) return false;
  const std::vector<std::uint64_t> ids = IdsIn(work->front());
  VerbFacts facts(local_, false);
  const bool is_there = Fill(facts, [&] {
    bool has_all = true;
    for (const std::uint64_t id : ids) has_all = facts.Found(id).has_value() && has_all;
    return has_all;
  });
  if (!is_there) return false;
  std::vector<PendingApproval> claims;
  for (const std::uint64_t id : ids) {
    const auto found = facts.Found(id);
    if (!found || !*found || !**found || !IsClaim((**found)->entry.phase)) continue;
    auto event = LoadWhole(facts, local_.opener, (**found)->entry.last_event);
    if (!event) {
      wait.result = std::unexpected(event.error());
      return true;
    }
    const Millis left =
        event->approval ? TimeLeft(*event->approval, local_.WallMs()) : Millis::max();
    claims.push_back({std::move(*event), left});
  }
  wait.result = std::move(claims);
  return true;
}

bool PostgresLedger::Serve(FlowsWait& wait) {
  std::vector<Digest> keys;
  if (wait.named) {
    keys.push_back(*wait.named);
  } else {
    PgArguments arguments;
    arguments.Bytes(store_.group());
    const auto listed = Ask(kUnfinishedFlows, AddPage(wait.after, wait.limit, arguments));
    if (!listed) return false;
    for (int row = 0; row < listed->front().size(); ++row) {
      keys.push_back(listed->front().Uuid(row, 0));
    }
  }
  VerbFacts facts(local_, false);
  const bool is_there = Fill(facts, [&] {
    bool has_all = true;
    for (const Digest& key : keys) has_all = facts.State(key).has_value() && has_all;
    return has_all;
  });
  if (!is_there) return false;
  std::vector<FlowState> flows;
  for (const Digest& key : keys) {
    auto state = facts.State(key);
    if (state && *state && **state) flows.push_back(std::move(***state));
  }
  wait.result = std::move(flows);
  return true;
}

// What this process has changed is told at once; for the rest the database is asked, more rarely
// the longer somebody waits.
bool PostgresLedger::ServeJoins() {
  const std::vector<JoinWait*> news = std::exchange(new_joins_, {});
  if (news.empty() && joined_.empty()) return true;
  if (!news.empty() || std::exchange(polls_now_, false)) {
    poll_every_ = kPollFirst;
  } else {
    poll_every_ = std::min(2 * poll_every_, kPollMost);
  }
  std::set<std::uint64_t> asked = joined_;
  for (const JoinWait* const wait : news) asked.insert(wait->operation);
  VerbFacts facts(local_, false);
  const bool is_there = Fill(facts, [&] {
    bool has_all = true;
    for (const std::uint64_t id : asked) has_all = facts.Found(id).has_value() && has_all;
    return has_all;
  });
  if (!is_there) {
    new_joins_ = news;
    return false;
  }
  for (JoinWait* const wait : news) (void)Answer(*wait, facts, true);
  for (const std::uint64_t operation : std::set<std::uint64_t>(joined_)) {
    const auto found = facts.Found(operation);
    if (found && *found && **found && IsAwaited((**found)->entry.phase)) continue;
    joined_.erase(operation);
    for (JoinWait* const wait : joins_.TakeOperation(operation)) (void)Answer(*wait, facts, false);
  }
  return true;
}

// False: it goes on waiting.
bool PostgresLedger::Answer(JoinWait& wait, VerbFacts& facts, bool is_new) {
  const auto found = facts.Found(wait.operation);
  const bool is_there = found && *found && **found;
  if (is_there && is_new && !wait.reads && IsAwaited((**found)->entry.phase)) {
    if (wait.deadline > clock_.Now() && joins_.Add(wait)) {
      joined_.insert(wait.operation);
      return false;
    }
    wait.result = std::nullopt;
  } else if (is_there) {
    auto event = LoadWhole(facts, local_.opener, (**found)->entry.last_event);
    if (event) {
      wait.result = std::move(*event);
    } else {
      wait.result = std::unexpected(event.error());
    }
  } else if (found && !*found) {
    wait.result = std::unexpected(found->error());
  } else {
    wait.result = std::unexpected(Error(ErrorCode::kInternal, "no such operation"));
  }
  Tell(wait.executor, [&wait] { wait.promise.Set(std::move(wait.result)); });
  return true;
}

void PostgresLedger::ExpireJoins() {
  for (JoinWait* const wait : joins_.TakeExpired(clock_.Now())) {
    if (!joins_.Has(wait->operation)) joined_.erase(wait->operation);
    wait->result = std::nullopt;
    Tell(wait->executor, [wait] { wait->promise.Set(std::move(wait->result)); });
  }
}

}  // namespace recourse
