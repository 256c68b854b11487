#include "filters/ledger/postgres/upkeep/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/rows/row_codec.h"

namespace recourse {
namespace {

constexpr PgStatement kAuditStreams{
    "audit_streams", "SELECT stream, grp, pod, head, chain FROM stream ORDER BY stream"};
constexpr PgStatement kAuditRows{
    "audit_rows",
    "SELECT number, bytes, won, kind, coalesce(tool, ''), coalesce(caller, ''), phase, key,"
    " op_stream, op_number, e.grp = s.grp FROM event e JOIN stream s USING (stream)"
    " WHERE stream = $1::bigint AND number >= $2::bigint ORDER BY number LIMIT $3::bigint"};
constexpr PgStatement kRowsWithoutStream{
    "rows_without_stream",
    "SELECT e.stream FROM (SELECT DISTINCT stream FROM event) AS e"
    " WHERE NOT EXISTS (SELECT 1 FROM stream s WHERE s.stream = e.stream) LIMIT 1"};
// Flags: neither another one's name, nor a tombstone, nor a placeholder.
constexpr PgStatement kLostOperations{
    "lost_operations",
    "SELECT o.op_stream, o.op_number, o.last_stream, o.last_number FROM operation o"
    " LEFT JOIN event e ON e.stream = o.last_stream AND e.number = o.last_number"
    " WHERE o.flags & 14 = 0 AND (e.key IS DISTINCT FROM o.key OR e.phase <> o.phase"
    " OR e.op_stream <> o.op_stream OR e.op_number <> o.op_number) LIMIT 1"};
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

struct UnlikeRow {
  std::uint64_t row = 0;
  std::string_view column;
};

// Compares the columns of each row that was found good.
class ComparingReader final : public EventLog::Reader {
 public:
  ComparingReader(PgReader& reader, std::optional<UnlikeRow>& unlike)
      : reader_(reader), unlike_(unlike) {}

  bool Read(std::uint64_t /*seq*/, std::string& /*row*/) override { return false; }

  bool Scan(std::uint64_t from, std::size_t rows_max, const Visit& visit) override {
    RowId next = UnpackRowId(from);
    while (rows_max > 0) {
      const std::size_t asked = std::min(rows_max, kAuditScanRows);
      const auto answered = reader_.Ask(kAuditRows, PgArguments()
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
        if (const auto column = ColumnUnlike(*row, rows, at); !column.empty()) {
          unlike_ = UnlikeRow{PackRowId(next), column};
          return false;
        }
      }
      if (static_cast<std::size_t>(rows.size()) < asked) return true;
      rows_max -= asked;
      ++next.number;
    }
    return true;
  }

 private:
  PgReader& reader_;
  std::optional<UnlikeRow>& unlike_;
};

class ComparingLog final : public PgEventLog {
 public:
  ComparingLog(PgReader& reader, std::uint64_t stream)
      : PgEventLog(reader, stream), reader_(reader) {}
  std::unique_ptr<Reader> NewReader() override {
    return std::make_unique<ComparingReader>(reader_, unlike_);
  }
  const std::optional<UnlikeRow>& unlike() const { return unlike_; }

 private:
  PgReader& reader_;
  std::optional<UnlikeRow> unlike_;
};

std::uint64_t IdIn(const PgRows& rows, int column) {
  return PackRowId({.stream = static_cast<std::uint32_t>(rows.Int(0, column)),
                    .number = rows.Number(0, column + 1)});
}

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
  ComparingLog log(reader, stream.stream);
  VerifyReport report = keys != nullptr ? VerifyLog(log, keys, stream.last_id, stream.chain)
                                        : VerifyChain(log, stream.last_id, stream.chain);
  if (const auto& unlike = log.unlike()) {
    report.ok = false;
    report.bad_row = unlike->row;
    report.check = "columns";
    report.problem = fmt::format("row {}: the table's column {} does not say what the row says",
                                 PrintRowId(unlike->row), unlike->column);
  }
  return report;
}

std::expected<std::string, std::string> CheckPgTables(PgReader& reader) {
  const auto streams = reader.Ask(kRowsWithoutStream, PgArguments());
  if (!streams) return std::unexpected(streams.error());
  if (streams->front().size() > 0) {
    return fmt::format("stream {}: its rows are there, and it is not listed",
                       streams->front().Int(0, 0));
  }
  const auto operations = reader.Ask(kLostOperations, PgArguments());
  if (!operations) return std::unexpected(operations.error());
  const PgRows& found = operations->front();
  if (found.size() == 0) return std::string();
  return fmt::format("operation {}: its last row {} is not there, or says something else",
                     PrintRowId(IdIn(found, 0)), PrintRowId(IdIn(found, 2)));
}

}  // namespace recourse
