#include "filters/ledger/postgres/lists.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr Millis kPollFirst{20}, kPollMost{250};
constexpr int kListRoundsMax = 64;

#define PG_PAGE                                                              \
  " AND (stream, number) > ($2::bigint, $3::bigint) ORDER BY stream, number" \
  " LIMIT $4::bigint"
// Its own calls are in memory; of what is unknown, or waits for humans, work tells.
constexpr PgStatement kOwnUnknown{
    "own_unknown", "SELECT stream, number FROM work WHERE owner = $1::bigint AND kind = 1" PG_PAGE};
constexpr PgStatement kOwnApprovals{
    "own_approvals",
    "SELECT stream, number FROM work WHERE owner = $1::bigint AND kind = 2" PG_PAGE};
constexpr PgStatement kApprovals{
    "approvals", "SELECT stream, number FROM work WHERE grp = $1::text AND kind = 2" PG_PAGE};
// Each with its owner, if there is work on it.
constexpr PgStatement kUnfinishedFlows{
    "unfinished_flows",
    "SELECT f.flow, coalesce(w.owner, 0) FROM flow f LEFT JOIN work w"
    " ON w.grp = f.grp AND w.kind = 3 AND w.stream = f.flow_stream AND w.number = f.flow_number"
    " WHERE f.grp = $1::text AND f.phase NOT IN (2, 5)"
    " AND (f.flow_stream, f.flow_number) > ($2::bigint, $3::bigint)"
    " ORDER BY f.flow_stream, f.flow_number LIMIT $4::bigint"};
// Also those that an unknown step may break.
constexpr PgStatement kOwnFlows{
    "own_flows",
    "SELECT f.flow, $5::bigint FROM (SELECT w.stream, w.number FROM work w"
    "  WHERE w.owner = $5::bigint AND w.kind = 3"
    " UNION SELECT s.flow_stream, s.flow_number FROM (SELECT o.grp, o.flow FROM work w"
    "   JOIN LATERAL " PG_KEY_OF("w.stream", "w.number", "w.grp") " AS k ON true"
    "   JOIN operation o ON o.grp = k.grp AND o.key = k.key"
    "   WHERE w.owner = $5::bigint AND w.kind = 1" PG_ONE_BY_ONE
    "  JOIN flow s ON s.grp = p.grp AND s.flow = p.flow) AS own"
    " JOIN flow f ON f.grp = $1::text AND f.flow_stream = own.stream"
    "  AND f.flow_number = own.number AND f.phase NOT IN (2, 5)"
    " WHERE (own.stream, own.number) > ($2::bigint, $3::bigint)"
    " ORDER BY own.stream, own.number LIMIT $4::bigint"};

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
                                                                    const PgPage& page) {
  const RowId after = UnpackRowId(page.after);
  arguments.Int(after.stream).Int(AsInt(after.number)).Int(AsInt(page.limit));
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

// What a database that is there refuses to tell, nobody waits for: nothing would ask it again.
bool PgLists::Serve(const std::set<std::uint64_t>& changed) {
  const auto is_joined = [&](std::uint64_t operation) { return joined_.contains(operation); };
  if (ServeLists() && ServeJoins(std::ranges::any_of(changed, is_joined))) return true;
  if (store_.is_connected()) GiveUp();
  return false;
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
  const std::size_t limit = wait.page.limit;
  auto ids = IdsOf(kOwnUnknown, PgArguments().Int(AsInt(store_.stream())), wait.page);
  if (!ids) return false;
  for (auto at = store_.open().upper_bound(wait.page.after); at != store_.open().end(); ++at) {
    ids->push_back(at->first);
  }
  std::ranges::sort(*ids);
  if (ids->size() > limit) ids->resize(limit);
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
  const auto ids = wait.page.is_own
                       ? IdsOf(kOwnApprovals, PgArguments().Int(AsInt(store_.stream())), wait.page)
                       : IdsOf(kApprovals, PgArguments().Bytes(store_.group()), wait.page);
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

std::optional<std::vector<PgLists::ListedFlow>> PgLists::FlowsOf(const PgPage& page) {
  const RowId after = UnpackRowId(page.after);
  PgArguments arguments;
  arguments.Bytes(store_.group()).Int(after.stream).Int(AsInt(after.number)).Int(AsInt(page.limit));
  if (page.is_own) arguments.Int(AsInt(store_.stream()));
  store_.connection().Queue(page.is_own ? kOwnFlows : kUnfinishedFlows, arguments);
  const auto answered = store_.connection().Run();
  if (!answered) return std::nullopt;
  const PgRows& rows = answered->front();
  std::vector<ListedFlow> flows;
  for (int row = 0; row < rows.size(); ++row) {
    const std::uint64_t owner = rows.Number(row, 1);
    flows.push_back({rows.Uuid(row, 0), owner != 0 && owner != store_.stream()});
  }
  return flows;
}

bool PgLists::Serve(PgFlowsWait& wait) {
  std::vector<ListedFlow> listed;
  if (wait.page.flow_name) {
    listed.push_back({*wait.page.flow_name});
  } else if (auto page = FlowsOf(wait.page)) {
    listed = std::move(*page);
  } else {
    return false;
  }
  ReadRows rows(local_.opener, false);
  const bool is_there = Fill(rows, [&] {
    bool has_all = true;
    for (const ListedFlow& flow : listed) has_all = rows.State(flow.key).has_value() && has_all;
    return has_all;
  });
  if (!is_there) return false;
  std::vector<FlowState> flows;
  for (const ListedFlow& flow : listed) {
    auto state = rows.State(flow.key);
    if (!state || !*state || !**state) continue;
    (**state)->is_others = flow.is_others;
    flows.push_back(std::move(***state));
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
  for (JoinWait* const wait : std::exchange(new_joins_, {})) jobs_.TellAway(wait);
  for (const PgListWait& list : std::exchange(lists_, {})) jobs_.TellAway(list);
}

}  // namespace recourse
