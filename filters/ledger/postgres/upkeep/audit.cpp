#include "filters/ledger/postgres/upkeep/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/upkeep/flow_check.h"
#include "filters/ledger/postgres/upkeep/table_check.h"
#include "filters/ledger/rows/row_codec.h"

namespace recourse {
namespace {

constexpr PgStatement kAuditStreams{
    "audit_streams", "SELECT stream, grp, pod, head, chain FROM stream ORDER BY stream"};
// Each with what came before it of its operation, and what that is listed as, unless it is over.
constexpr PgStatement kAuditRows{
    "audit_rows",
    "SELECT e.number, e.bytes, e.won, e.kind, coalesce(e.tool, ''), coalesce(e.caller, ''),"
    " e.phase, e.key, e.op_stream, e.op_number, e.grp = s.grp, e.place, e.prev_number,"
    " coalesce(p.phase, 0), coalesce(o.phase, 0),"
    " coalesce(o.last_stream = e.stream AND o.last_number = e.number, false),"
    " coalesce(o.cause, 0), coalesce(o.attempt, 0), coalesce(o.generation, 0)"
    " FROM event e JOIN stream s USING (stream)"
    " LEFT JOIN event p ON p.stream = e.prev_stream AND p.number = e.prev_number"
    " LEFT JOIN operation o ON o.grp = e.grp AND o.key = e.key AND o.op_stream = e.op_stream"
    " AND o.op_number = e.op_number AND o.flags & 14 = 0"
    " WHERE e.stream = $1::bigint AND e.number >= $2::bigint ORDER BY e.number LIMIT $3::bigint"};
constexpr std::size_t kAuditScanRows = 256;

// Which column says something else than the row; empty: none does.
std::string_view ColumnUnlike(const RowView& row, const PgRows& rows, int at) {
  if (rows.Int(at, 2) == 0) return "won";
  if (rows.Int(at, 3) != static_cast<std::int64_t>(row.head.kind)) return "kind";
  if (rows.Int(at, 10) == 0) return "grp";
  FlowState flow;
  EventFront front;
  const bool is_flow = row.head.kind == RowKind::kFlow && DecodeFlow(row, flow);
  const bool is_event = row.head.kind == RowKind::kEvent && DecodeEventFront(row, front);
  const ToolAndCaller made = is_event ? MadeBy(row) : ToolAndCaller();
  if (rows.Bytes(at, 4) != made.tool) return "tool";
  if (rows.Bytes(at, 5) != (is_flow ? flow.caller : made.caller)) return "caller";
  if (rows.Int(at, 6) != static_cast<std::int64_t>(front.phase)) return "phase";
  const bool has_key = !rows.IsNull(at, 7);
  if (has_key != is_event || (has_key && UuidOf(rows.Uuid(at, 7)) != UuidOf(front.key))) {
    return "key";
  }
  const std::uint64_t operation = PackRowId(
      {.stream = static_cast<std::uint32_t>(rows.Int(at, 8)), .number = rows.Number(at, 9)});
  return operation != front.operation ? "op_number" : "";
}

// The same of the row of its operation, if this event is its last one. (CheckPgTables tells of
// another phase.)
std::string_view OperationUnlike(const EventFront& front, const PgRows& rows, int at) {
  if (rows.Int(at, 15) == 0 || rows.Int(at, 14) != rows.Int(at, 6)) return "";
  if (rows.Int(at, 16) != static_cast<std::int64_t>(front.cause)) return "cause";
  if (rows.Int(at, 17) != front.attempt) return "attempt";
  return rows.Int(at, 18) != front.generation ? "generation" : "";
}

struct UnlikeRow {
  std::uint64_t row = 0;
  std::string problem;
};

// Compares the columns of each row that was found good.
class ComparingReader final : public EventLog::Reader {
 public:
  ComparingReader(PgReader& reader, PgLook& look, const PgStream& of,
                  std::optional<UnlikeRow>& unlike)
      : look_(look), unlike_(unlike), intents_(reader, of.group), waiting_(reader, of.group) {}

  bool Read(std::uint64_t /*seq*/, std::string& /*row*/) override { return false; }

  bool Scan(std::uint64_t from, std::size_t rows_max, const Visit& visit) override {
    RowId next = UnpackRowId(from);
    while (rows_max > 0) {
      const std::size_t asked = std::min(rows_max, kAuditScanRows);
      const auto answered = look_.Ask(kAuditRows, PgArguments()
                                                      .Int(next.stream)
                                                      .Int(AsInt(next.number))
                                                      .Int(static_cast<std::int64_t>(asked)));
      if (!answered) return false;
      const PgRows& rows = answered->front();
      for (int at = 0; at < rows.size(); ++at) {
        next.number = rows.Number(at, 0);
        if (!visit(PackRowId(next), rows.Bytes(at, 1))) return true;
        const auto row = ParseRow(rows.Bytes(at, 1));
        if (!row) return false;
        if (!Compare(PackRowId(next), *row, rows, at)) return false;
      }
      if (!CheckIntents() || !CheckWaiting()) return false;
      if (static_cast<std::size_t>(rows.size()) < asked) return true;
      rows_max -= asked;
      ++next.number;
    }
    return true;
  }

 private:
  bool Compare(std::uint64_t id, const RowView& row, const PgRows& rows, int at) {
    if (const auto column = ColumnUnlike(row, rows, at); !column.empty()) {
      unlike_ = UnlikeRow{
          id, fmt::format("the table's column {} does not say what the row says", column)};
      return false;
    }
    EventFront front;
    FlowState flow;
    if (row.head.kind == RowKind::kFlow && DecodeFlow(row, flow)) {
      waiting_.Add(id, rows.Int(at, 11), flow);
    }
    if (row.head.kind != RowKind::kEvent || !DecodeEventFront(row, front)) return true;
    if (rows.Int(at, 15) != 0) waiting_.Add(id, front);
    if (const auto column = OperationUnlike(front, rows, at); !column.empty()) {
      unlike_ = UnlikeRow{id, fmt::format("the table `operation` has another {}", column)};
      return false;
    }
    intents_.Add({.row = id,
                  .place = rows.Int(at, 11),
                  .operation = static_cast<Phase>(rows.Int(at, 14)),
                  .before = static_cast<Phase>(rows.Int(at, 13)),
                  .is_first = rows.Int(at, 12) == 0},
                 front, row);
    return true;
  }
  bool CheckIntents() {
    const auto wrong = intents_.Check();
    if (wrong && wrong->row == 0) return true;
    if (wrong) {
      unlike_ = UnlikeRow{wrong->row, wrong->is_missing
                                          ? "the table `intent` does not have what it says"
                                          : "the table `intent` leads from it to another intent"};
    } else {
      look_.NoteAway();
    }
    return false;
  }
  bool CheckWaiting() {
    const auto missing = waiting_.Check();
    if (missing && missing->row == 0) return true;
    if (missing) {
      unlike_ = UnlikeRow{missing->row,
                          fmt::format("the table `{}` does not know of it", missing->table)};
    } else {
      look_.NoteAway();
    }
    return false;
  }

  PgLook& look_;
  std::optional<UnlikeRow>& unlike_;
  IntentCheck intents_;
  WaitingCheck waiting_;
};

class ComparingLog final : public PgEventLog {
 public:
  ComparingLog(PgReader& reader, const PgStream& of)
      : PgEventLog(reader, of.stream), reader_(reader), of_(of) {}
  std::unique_ptr<Reader> NewReader() override {
    return std::make_unique<ComparingReader>(reader_, look(), of_, unlike_);
  }
  const std::optional<UnlikeRow>& unlike() const { return unlike_; }

 private:
  PgReader& reader_;
  const PgStream& of_;
  std::optional<UnlikeRow> unlike_;
};

}  // namespace

std::expected<std::vector<PgStream>, std::string> ListPgStreams(PgReader& reader) {
  const auto answered = reader.Ask(kAuditStreams, PgArguments());
  if (!answered) return std::unexpected(answered.error());
  const PgRows& rows = answered->front();
  std::vector<PgStream> streams;
  for (int row = 0; row < rows.size(); ++row) {
    PgStream& stream = streams.emplace_back();
    stream.stream = rows.Number(row, 0);
    stream.group = rows.Bytes(row, 1);
    stream.pod = rows.Bytes(row, 2);
    stream.last_id = PackRowId({static_cast<std::uint32_t>(rows.Int(row, 0)), rows.Number(row, 3)});
    const std::string_view chain = rows.Bytes(row, 4);
    if (chain.size() == stream.chain.size()) {
      std::copy(chain.begin(), chain.end(), stream.chain.begin());
    }
  }
  return streams;
}

VerifyReport VerifyPgStream(PgReader& reader, const SharedKeys& keys, const PgStream& stream) {
  ComparingLog log(reader, stream);
  VerifyReport report = keys != nullptr ? VerifyLog(log, keys, stream.last_id, stream.chain)
                                        : VerifyChain(log, stream.last_id, stream.chain);
  if (const auto& unlike = log.unlike(); unlike && !report.is_away) {
    report.ok = false;
    report.bad_row = unlike->row;
    report.check = "columns";
    report.problem = fmt::format("row {}: {}", PrintRowId(unlike->row), unlike->problem);
  }
  return report;
}

}  // namespace recourse
