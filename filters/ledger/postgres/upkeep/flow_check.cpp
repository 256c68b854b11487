#include "filters/ledger/postgres/upkeep/flow_check.h"

#include <fmt/format.h>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/schema.h"
#include "filters/ledger/postgres/stored.h"

namespace recourse {
namespace {

// Rows up to its stream's base are removed.
constexpr PgStatement kLostFlowRows{
    "lost_flow_rows",
    "SELECT f.flow_stream, f.flow_number, r.stream, r.number FROM flow f, LATERAL (VALUES"
    " (f.flow_stream, f.flow_number, 1), (f.row_stream, f.row_number, 7))"
    " AS r(stream, number, kind)"
    " JOIN stream s ON s.stream = r.stream"
    " LEFT JOIN event e ON e.stream = r.stream AND e.number = r.number"
    " LEFT JOIN moved m ON m.stream = r.stream AND m.number = r.number"
    " WHERE r.number > s.base AND m.number IS NULL AND e.kind IS DISTINCT FROM r.kind LIMIT 1"};
constexpr PgStatement kStrayWork{
    "stray_work",
    "SELECT w.stream, w.number, w.kind FROM work w"
    " LEFT JOIN event e ON e.stream = w.stream AND e.number = w.number"
    " LEFT JOIN moved m ON m.stream = w.stream AND m.number = w.number"
    " LEFT JOIN operation o ON o.grp = w.grp AND o.key = coalesce(e.key, m.key)"
    " AND o.op_stream = w.stream AND o.op_number = w.number"
    " WHERE CASE w.kind WHEN 1 THEN o.phase IS DISTINCT FROM 6"
    " WHEN 2 THEN coalesce(o.phase, 0) NOT IN (1, 2)"
    " WHEN 3 THEN NOT EXISTS (SELECT 1 FROM flow f WHERE f.grp = w.grp AND f.flow_stream = w.stream"
    "  AND f.flow_number = w.number AND f.phase NOT IN (2, 5)) ELSE false END LIMIT 1"};
constexpr PgStatement kFlowsWithoutWork{
    "flows_without_work",
    "SELECT f.flow_stream, f.flow_number FROM flow f WHERE (f.phase IN (3, 4, 6)"
    " OR f.phase = 1 AND f.has_deadline) AND NOT EXISTS (SELECT 1 FROM work w WHERE w.grp = f.grp"
    " AND w.kind = 3 AND w.stream = f.flow_stream AND w.number = f.flow_number) LIMIT 1"};
// It is where the row says, or has moved on since. Of what began behind the rows that retention has
// removed nothing is gone.
constexpr PgStatement kUnlistedMoves{
    "unlisted_moves",
    "SELECT p.row FROM (SELECT *, $7::text AS grp"
    " FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])"
    " AS q(flow, row, place, number, phase, cause)" PG_ONE_BY_ONE
    " JOIN event b ON b.stream = p.number >> 36 AND b.number = p.number & 68719476735"
    " LEFT JOIN flow f ON f.grp = p.grp AND f.flow = p.flow"
    " LEFT JOIN event l ON l.stream = f.row_stream AND l.number = f.row_number"
    " WHERE b.place > coalesce((" PG_KEPT
    "$7::text), 0)"
    " AND CASE WHEN f.row_stream = p.row >> 36 AND f.row_number = p.row & 68719476735"
    " THEN f.phase <> p.phase OR f.cause <> p.cause OR f.flow_stream <> p.number >> 36"
    "  OR f.flow_number <> p.number & 68719476735"
    " ELSE coalesce(greatest(l.place, f.opened), 0) < p.place END ORDER BY p.place LIMIT 1"};
// Those that nothing has moved on since.
constexpr PgStatement kUnlistedWork{
    "unlisted_work",
    "SELECT p.row FROM (SELECT *, $4::text AS grp"
    " FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS q(key, row, kind)" PG_ONE_BY_ONE
    " JOIN operation o ON o.grp = p.grp AND o.key = p.key AND o.last_stream = p.row >> 36"
    " AND o.last_number = p.row & 68719476735"
    " WHERE NOT EXISTS (SELECT 1 FROM work w WHERE w.grp = p.grp AND w.kind = p.kind"
    " AND w.stream = o.op_stream AND w.number = o.op_number) LIMIT 1"};

std::uint64_t FirstOf(const PgRows& rows) { return rows.size() == 0 ? 0 : rows.Number(0, 0); }

}  // namespace

std::string RowIdIn(const PgRows& rows, int column) {
  return PrintRowId(PackRowId({.stream = static_cast<std::uint32_t>(rows.Int(0, column)),
                               .number = rows.Number(0, column + 1)}));
}

std::expected<std::string, std::string> CheckPgFlowsAndWork(PgReader& reader) {
  struct Check {
    const PgStatement& statement;
    std::string (*says)(const PgRows& found);
  };
  static constexpr Check kAll[] = {
      {kLostFlowRows,
       [](const PgRows& found) {
         return fmt::format(
             "flow {}: row {}, which the table `flow` names, is not there, or is "
             "none of a flow",
             RowIdIn(found, 0), RowIdIn(found, 2));
       }},
      {kStrayWork,
       [](const PgRows& found) {
         const bool is_flow = found.Int(0, 2) == static_cast<int>(WorkKind::kFlow);
         return fmt::format("{} {}: the table `work` has it, and it does not wait",
                            is_flow ? "flow" : "operation", RowIdIn(found, 0));
       }},
      {kFlowsWithoutWork,
       [](const PgRows& found) {
         return fmt::format("flow {} waits, and the table `work` does not have it",
                            RowIdIn(found, 0));
       }},
  };
  for (const Check& check : kAll) {
    const auto found = reader.Ask(check.statement, PgArguments());
    if (!found) return std::unexpected(found.error());
    if (found->front().size() > 0) return check.says(found->front());
  }
  return std::string();
}

// What is finished, or open and idle, may be gone from the table.
void WaitingCheck::Add(std::uint64_t row, std::int64_t place, const FlowState& moved) {
  const bool is_kept = IsFenced(moved.phase) && moved.phase != FlowPhase::kUndone;
  if (is_kept) moved_.push_back({FlowKeyOf(moved.caller, moved.id), row, place, moved});
}

// What observe mode never learned is never settled.
void WaitingCheck::Add(std::uint64_t row, const EventFront& last) {
  const bool is_unknown = last.phase == Phase::kUncertain && last.verdict == ObserveVerdict::kNone;
  if (is_unknown || IsClaim(last.phase)) waits_.push_back({last.key, row, last.phase});
}

std::expected<std::uint64_t, std::string> WaitingCheck::CheckFlows() const {
  if (moved_.empty()) return 0;
  PgArray flows(PgArray::Of::kUuid), rows(PgArray::Of::kInt), places(PgArray::Of::kInt),
      numbers(PgArray::Of::kInt), phases(PgArray::Of::kInt), causes(PgArray::Of::kInt);
  for (const Moved& one : moved_) {
    flows.Uuid(one.flow);
    rows.Int(AsInt(one.row));
    places.Int(one.place);
    numbers.Int(AsInt(one.state.number));
    phases.Int(static_cast<std::int64_t>(one.state.phase));
    causes.Int(static_cast<std::int64_t>(one.state.cause));
  }
  PgArguments arguments;
  for (const PgArray* const array : {&flows, &rows, &places, &numbers, &phases, &causes}) {
    array->AppendTo(arguments);
  }
  const auto found = reader_.Ask(kUnlistedMoves, arguments.Bytes(group_));
  if (!found) return std::unexpected(found.error());
  return FirstOf(found->front());
}

std::expected<std::uint64_t, std::string> WaitingCheck::CheckWork() const {
  if (waits_.empty()) return 0;
  PgArray keys(PgArray::Of::kUuid), rows(PgArray::Of::kInt), kinds(PgArray::Of::kInt);
  for (const Waits& one : waits_) {
    keys.Uuid(one.key);
    rows.Int(AsInt(one.row));
    const WorkKind kind = one.phase == Phase::kUncertain ? WorkKind::kSettle : WorkKind::kApproval;
    kinds.Int(static_cast<std::int64_t>(kind));
  }
  PgArguments arguments;
  for (const PgArray* const array : {&keys, &rows, &kinds}) array->AppendTo(arguments);
  const auto found = reader_.Ask(kUnlistedWork, arguments.Bytes(group_));
  if (!found) return std::unexpected(found.error());
  return FirstOf(found->front());
}

std::expected<WaitingCheck::Missing, std::string> WaitingCheck::Check() {
  const auto flow = CheckFlows();
  const auto work = CheckWork();
  moved_.clear();
  waits_.clear();
  if (!flow) return std::unexpected(flow.error());
  if (!work) return std::unexpected(work.error());
  if (*flow != 0) return Missing{*flow, "flow"};
  return Missing{*work, "work"};
}

}  // namespace recourse
