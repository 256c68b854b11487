#include "filters/ledger/postgres/lists.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/log/log.h"

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

// Once its facts are there.
template <class Row>
Result<Event> LoadWhole(ReadRows& rows, const Row& found) {
  auto event = rows.Decode(found.entry.last_event, AnswerPart::kLoad);
  return event ? std::move(*event) : Result<Event>(std::unexpected(PgAway()));
}

}  // namespace

// Reads until nothing more is wished for. False: the database is away.
bool PgLists::Fill(ReadRows& rows, const IsDone& is_done) {
  for (int round = 0; round < kListRoundsMax && !is_done(); ++round) {
    if (rows.wishes().empty()) return true;
    const auto fetched = store_.Read(rows.wishes());
    if (!fetched) {
      Log(LogLevel::kWarn, "the ledger's database cannot be read",
          {{"reason", fetched.error().text}});
      return false;
    }
    rows.Take(*fetched);
  }
  return true;
}

bool PgLists::FillFound(ReadRows& rows, const std::vector<std::uint64_t>& operations) {
  return Fill(rows, [&] {
    bool has_all = true;
    for (const std::uint64_t id : operations) has_all = rows.Found(id).has_value() && has_all;
    return has_all;
  });
}

std::expected<std::vector<std::uint64_t>, PgFailure> PgLists::IdsOf(const PgStatement& statement,
                                                                    PgArguments arguments,
                                                                    std::uint64_t after,
                                                                    std::size_t limit) {
  const RowId id = UnpackRowId(after);
  arguments.Int(id.stream)
      .Int(static_cast<std::int64_t>(id.number))
      .Int(static_cast<std::int64_t>(limit));
  store_.connection().Queue(statement, arguments);
  const auto answered = store_.connection().Run();
  if (!answered) return std::unexpected(answered.error());
  const PgRows& rows = answered->front();
  std::vector<std::uint64_t> ids;
  for (int row = 0; row < rows.size(); ++row) {
    ids.push_back(PackRowId({static_cast<std::uint32_t>(rows.Int(row, 0)), rows.Number(row, 1)}));
  }
  return ids;
}

bool PgLists::Serve(const std::set<std::uint64_t>& changed) {
  if (!ServeLists()) return false;
  return ServeJoins(std::ranges::any_of(
      changed, [&](std::uint64_t operation) { return joined_.contains(operation); }));
}

bool PgLists::ServeLists() {
  while (!lists_.empty()) {
    const auto serve = [this](auto* wait) {
      if (!Serve(*wait)) return false;
      jobs_.Tell(wait->executor, [wait] { wait->done.Set(true); });
      return true;
    };
    if (!std::visit(serve, lists_.front())) return false;
    lists_.erase(lists_.begin());
  }
  return true;
}

bool PgLists::Serve(PgEventsWait& wait) {
  auto ids = IdsOf(kOwnWork, PgArguments().Int(static_cast<std::int64_t>(store_.stream())),
                   wait.after, wait.limit);
  if (!ids) return false;
  for (auto at = store_.open().upper_bound(wait.after); at != store_.open().end(); ++at) {
    ids->push_back(at->first);
  }
  std::ranges::sort(*ids);
  if (ids->size() > wait.limit) ids->resize(wait.limit);
  ReadRows rows(local_.opener, false);
  if (!FillFound(rows, *ids)) return false;
  std::vector<Event> events;
  for (const std::uint64_t id : *ids) {
    const auto found = rows.Found(id);
    if (!found || !*found || !**found || !IsOpen((**found)->entry.phase)) continue;
    auto event = LoadWhole(rows, ***found);
    if (!event) {
      wait.result = std::unexpected(event.error());
      return true;
    }
    events.push_back(std::move(*event));
  }
  wait.result = std::move(events);
  return true;
}

bool PgLists::Serve(PgClaimsWait& wait) {
  const auto ids = IdsOf(kApprovals, PgArguments().Bytes(store_.group()), wait.after, wait.limit);
  if (!ids) return false;
  ReadRows rows(local_.opener, false);
  if (!FillFound(rows, *ids)) return false;
  std::vector<PendingApproval> claims;
  for (const std::uint64_t id : *ids) {
    const auto found = rows.Found(id);
    if (!found || !*found || !**found || !IsClaim((**found)->entry.phase)) continue;
    auto event = LoadWhole(rows, ***found);
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

bool PgLists::Serve(PgFlowsWait& wait) {
  std::vector<Digest> keys;
  if (wait.named) {
    keys.push_back(*wait.named);
  } else {
    const RowId after = UnpackRowId(wait.after);
    store_.connection().Queue(kUnfinishedFlows, PgArguments()
                                                    .Bytes(store_.group())
                                                    .Int(after.stream)
                                                    .Int(static_cast<std::int64_t>(after.number))
                                                    .Int(static_cast<std::int64_t>(wait.limit)));
    const auto listed = store_.connection().Run();
    if (!listed) return false;
    for (int row = 0; row < listed->front().size(); ++row) {
      keys.push_back(listed->front().Uuid(row, 0));
    }
  }
  ReadRows rows(local_.opener, false);
  const bool is_there = Fill(rows, [&] {
    bool has_all = true;
    for (const Digest& key : keys) has_all = rows.State(key).has_value() && has_all;
    return has_all;
  });
  if (!is_there) return false;
  std::vector<FlowState> flows;
  for (const Digest& key : keys) {
    auto state = rows.State(key);
    if (state && *state && **state) flows.push_back(std::move(***state));
  }
  wait.result = std::move(flows);
  return true;
}

bool PgLists::ServeJoins(bool has_news) {
  const std::vector<JoinWait*> news = std::exchange(new_joins_, {});
  if (news.empty() && joined_.empty()) return true;
  poll_every_ = has_news || !news.empty() ? kPollFirst : std::min(2 * poll_every_, kPollMost);
  std::set<std::uint64_t> asked = joined_;
  for (const JoinWait* const wait : news) asked.insert(wait->operation);
  ReadRows rows(local_.opener, false);
  if (!FillFound(rows, {asked.begin(), asked.end()})) {
    new_joins_ = news;
    return false;
  }
  for (const std::uint64_t operation : std::set<std::uint64_t>(joined_)) {
    const auto found = rows.Found(operation);
    if (found && *found && **found && IsAwaited((**found)->entry.phase)) continue;
    joined_.erase(operation);
    for (JoinWait* const wait : joins_.TakeOperation(operation)) Answer(*wait, rows, false);
  }
  for (JoinWait* const wait : news) Answer(*wait, rows, true);
  return true;
}

// A new one may go on waiting.
void PgLists::Answer(JoinWait& wait, ReadRows& rows, bool is_new) {
  const auto found = rows.Found(wait.operation);
  const bool is_there = found && *found && **found;
  if (is_there && is_new && !wait.reads && IsAwaited((**found)->entry.phase)) {
    if (wait.deadline > local_.clock.Now() && joins_.Add(wait)) {
      joined_.insert(wait.operation);
      return;
    }
    wait.result = std::nullopt;
  } else if (is_there) {
    auto event = LoadWhole(rows, ***found);
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
  jobs_.Tell(wait.executor, [&wait] { wait.promise.Set(std::move(wait.result)); });
}

void PgLists::ExpireJoins() {
  for (JoinWait* const wait : joins_.TakeExpired(local_.clock.Now())) {
    if (!joins_.Has(wait->operation)) joined_.erase(wait->operation);
    wait->result = std::nullopt;
    jobs_.Tell(wait->executor, [wait] { wait->promise.Set(std::move(wait->result)); });
  }
}

void PgLists::EndJoins() {
  for (JoinWait* const wait : joins_.TakeAll()) {
    wait->result = std::nullopt;
    jobs_.Tell(wait->executor, [wait] { wait->promise.Set(std::move(wait->result)); });
  }
  joined_.clear();
}

void PgLists::GiveUp() {
  for (JoinWait* const wait : std::exchange(new_joins_, {})) {
    wait->result = std::unexpected(PgAway());
    jobs_.Tell(wait->executor, [wait] { wait->promise.Set(std::move(wait->result)); });
  }
  const auto refuse = [this](auto* wait) {
    wait->result = std::unexpected(PgAway());
    jobs_.Tell(wait->executor, [wait] { wait->done.Set(true); });
  };
  for (const PgListWait& list : std::exchange(lists_, {})) std::visit(refuse, list);
}

}  // namespace recourse
