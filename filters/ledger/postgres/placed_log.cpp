#include "filters/ledger/postgres/placed_log.h"

#include <algorithm>
#include <limits>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/rows/row_codec.h"
#include "proxy/base/watch_limits.h"

namespace recourse {
namespace {

constexpr PgStatement kPlacedRow{
    "placed_row",
    "SELECT bytes FROM event WHERE stream = $1::bigint AND number = $2::bigint AND won"};
constexpr PgStatement kPlacedScan{
    "placed_scan",
    "SELECT place, bytes FROM event WHERE place >= $1::bigint AND grp = $2::text AND won"
    " ORDER BY place LIMIT $3::bigint"};
constexpr PgStatement kLastPlace{
    "last_place", "SELECT place FROM event WHERE grp = $1::text ORDER BY place DESC LIMIT 1"};
// Of the row, or of the last one before it in its stream.
constexpr PgStatement kPlaceOf{
    "place_of",
    "SELECT coalesce((SELECT place FROM event WHERE stream = $1::bigint AND number <= $2::bigint"
    " ORDER BY number DESC LIMIT 1),"
    " (SELECT place - 1 FROM event WHERE stream = $1::bigint ORDER BY number LIMIT 1), 0)"};
// Rows that are the newest of their operations.
constexpr PgStatement kOlderOperations{
    "older_operations",
    "SELECT e.place, e.stream, e.number, e.bytes FROM event e JOIN operation o"
    " ON o.key = e.key AND o.last_stream = e.stream AND o.last_number = e.number"
    " WHERE e.place < $1::bigint AND e.grp = $2::text AND e.won AND e.kind = 1"
    " ORDER BY e.place DESC LIMIT $3::bigint"};
constexpr PgStatement kNewerOperations{
    "newer_operations",
    "SELECT e.place, e.stream, e.number, e.bytes FROM event e JOIN operation o"
    " ON o.key = e.key AND o.last_stream = e.stream AND o.last_number = e.number"
    " WHERE e.place > $1::bigint AND e.grp = $2::text AND e.won AND e.kind = 1"
    " ORDER BY e.place LIMIT $3::bigint"};

constexpr std::size_t kPlacedRows = 256;

class PlacedReader final : public EventLog::Reader {
 public:
  PlacedReader(PgReader& reader, const std::string& group) : reader_(reader), group_(group) {}

  bool Read(std::uint64_t seq, std::string& row) override {
    const RowId id = UnpackRowId(seq);
    const auto rows = reader_.Ask(kPlacedRow, PgArguments().Int(id.stream).Int(AsInt(id.number)));
    if (!rows || rows->front().size() == 0) return false;
    row = rows->front().Bytes(0, 0);
    return true;
  }

  bool Scan(std::uint64_t from, std::size_t rows_max, const Visit& visit) override {
    while (rows_max > 0) {
      const std::size_t asked = std::min(rows_max, kPlacedRows);
      const auto answered =
          reader_.Ask(kPlacedScan, PgArguments().Int(AsInt(from)).Bytes(group_).Int(AsInt(asked)));
      if (!answered) return false;
      const PgRows& rows = answered->front();
      for (int row = 0; row < rows.size(); ++row) {
        from = rows.Number(row, 0);
        if (!visit(from, rows.Bytes(row, 1))) return true;
      }
      if (static_cast<std::size_t>(rows.size()) < asked) return true;
      rows_max -= asked;
      ++from;
    }
    return true;
  }

 private:
  PgReader& reader_;
  const std::string group_;
};

// Of one operation, if it is asked for. False: its row cannot be read.
bool TakeOperation(std::string_view bytes, const OperationFilter& filter, RowDecryptor& opener,
                   std::vector<Event>& events) {
  const auto row = ParseRow(bytes);
  if (!row) return false;
  Event event;
  const AnswerPart part = filter.value ? AnswerPart::kLoad : AnswerPart::kSkipBody;
  if (!DecodeEvent(*row, part, opener, event)) return false;
  if (!IsAskedFor(filter, event)) return true;
  event.answer = {};
  event.request.reset();
  events.push_back(std::move(event));
  return true;
}

}  // namespace

std::expected<void, AppendError> PgPlacedLog::Append(const RowBatch& /*batch*/) {
  return std::unexpected(AppendError{.reason = "it is written elsewhere"});
}

std::unique_ptr<EventLog::Reader> PgPlacedLog::NewReader() {
  return std::make_unique<PlacedReader>(reader_, group_);
}

std::uint64_t PgPlacedLog::last_seq() {
  const auto rows = reader_.Ask(kLastPlace, PgArguments().Bytes(group_));
  return rows && rows->front().size() > 0 ? rows->front().Number(0, 0) : 0;
}

std::uint64_t PgPlacedLog::PlaceOf(std::uint64_t id) {
  const RowId row = UnpackRowId(id);
  // The ends of the log.
  if (id == 0 || row.stream > kRowStreamMax) return id;
  const auto rows = reader_.Ask(kPlaceOf, PgArguments().Int(row.stream).Int(AsInt(row.number)));
  return rows && rows->front().size() > 0 ? rows->front().Number(0, 0) : 0;
}

Result<OperationPage> ListPgOperations(PgReader& reader, const std::string& group,
                                       const SharedKeys& keys, const OperationFilter& filter) {
  PgPlacedLog log(reader, group);
  const bool is_up = filter.after.has_value();
  const std::size_t limit = std::clamp(filter.limit, std::size_t{1}, limits::kOperationsPageMax);
  std::uint64_t at = is_up           ? log.PlaceOf(*filter.after)
                     : filter.before ? log.PlaceOf(*filter.before)
                                     : std::numeric_limits<std::int64_t>::max();
  OperationPage page{.events = {}, .first = 0, .last = 0};
  page.older = is_up;
  page.newer = filter.before.has_value();
  RowDecryptor opener(keys);
  bool& has_more = is_up ? page.newer : page.older;
  for (std::size_t looked = 0; page.events.size() < limit;) {
    has_more = looked > 0;
    if (looked >= limits::kOperationsScanRows) break;  // whoever asks goes on from here
    const auto answered = reader.Ask(is_up ? kNewerOperations : kOlderOperations,
                                     PgArguments().Int(AsInt(at)).Bytes(group).Int(AsInt(limit)));
    if (!answered) {
      return std::unexpected(Error(ErrorCode::kLedgerUnavailable,
                                   "the ledger's database does not answer", Delivery::kNotSent));
    }
    const PgRows& rows = answered->front();
    for (int row = 0; row < rows.size() && page.events.size() < limit; ++row) {
      const std::uint64_t id =
          PackRowId({static_cast<std::uint32_t>(rows.Int(row, 1)), rows.Number(row, 2)});
      if (!TakeOperation(rows.Bytes(row, 3), filter, opener, page.events)) {
        return std::unexpected(Unreadable(id));
      }
      at = rows.Number(row, 0);
      if (looked++ == 0) (is_up ? page.first : page.last) = id;
      (is_up ? page.last : page.first) = id;
    }
    has_more = static_cast<std::size_t>(rows.size()) == limit;
    if (!has_more) break;
  }
  if (is_up) std::reverse(page.events.begin(), page.events.end());
  return page;
}

}  // namespace recourse
