#include "filters/ledger/postgres/placed_log.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/pg_values.h"
#include "filters/ledger/postgres/waits.h"
#include "filters/ledger/rows/row_codec.h"
#include "proxy/base/limits.h"
#include "proxy/base/watch_limits.h"

namespace recourse {
namespace {

constexpr PgStatement kPlacedRow{
    "placed_row",
    "SELECT bytes FROM event WHERE stream = $1::bigint AND number = $2::bigint AND won"
    " AND grp = $3::text"};
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
    " AND grp = $3::text ORDER BY number DESC LIMIT 1),"
    " (SELECT place - 1 FROM event WHERE stream = $1::bigint AND grp = $3::text"
    " ORDER BY number LIMIT 1), 0)"};
constexpr PgStatement kPlacedBefore{
    "placed_before",
    "SELECT stream, number, place FROM event WHERE place <= $1::bigint AND grp = $2::text AND won"
    " ORDER BY place DESC OFFSET $3::bigint LIMIT 1"};
// Rows that are the newest of their operations. They are looked for in the order of their places,
// whatever the server takes the tables to hold.
#define PG_OPERATIONS(side, order)                                                            \
  "SELECT e.place, e.stream, e.number, e.bytes FROM (SELECT grp, key, place, stream, number," \
  " bytes FROM event WHERE grp = $2::text AND place " side                                    \
  " $1::bigint AND won AND kind = 1"                                                          \
  " ORDER BY place" order                                                                     \
  " OFFSET 0) e JOIN operation o ON o.grp = e.grp AND o.key = e.key"                          \
  " AND o.last_stream = e.stream AND o.last_number = e.number ORDER BY e.place" order         \
  " LIMIT $3::bigint"
constexpr PgStatement kOlderOperations{"older_operations", PG_OPERATIONS("<", " DESC")};
constexpr PgStatement kNewerOperations{"newer_operations", PG_OPERATIONS(">", "")};
#undef PG_OPERATIONS

// The rows of an operation that has this name, from its last one back; so many at most.
constexpr PgStatement kOperationRows{
    "operation_rows",
    "WITH RECURSIVE line AS ("
    "  SELECT e.place, e.won, e.bytes, e.prev_stream, e.prev_number, 1 AS nth"
    "  FROM " PG_KEY_OF("$1::bigint", "$2::bigint", "$3::text") " AS k"
    "  JOIN operation o ON o.grp = k.grp AND o.key = k.key"
    "  JOIN event e ON e.stream = o.last_stream AND e.number = o.last_number"
    "  UNION ALL SELECT e.place, e.won, e.bytes, e.prev_stream, e.prev_number, l.nth + 1"
    "  FROM line l JOIN event e ON e.stream = l.prev_stream AND e.number = l.prev_number"
    "  WHERE l.prev_number > 0 AND l.nth < $4::bigint)"
    " SELECT place, bytes FROM line WHERE won ORDER BY place"};
constexpr std::size_t kOperationRowsMax = 10'000;

constexpr std::size_t kPlacedRows = 256;

class PlacedReader final : public EventLog::Reader {
 public:
  PlacedReader(PgLook& look, const std::string& group) : look_(look), group_(group) {}

  bool Read(std::uint64_t seq, std::string& row) override {
    const RowId id = UnpackRowId(seq);
    const auto rows =
        look_.Ask(kPlacedRow, PgArguments().Int(id.stream).Int(AsInt(id.number)).Bytes(group_));
    if (!rows || rows->front().size() == 0) return false;
    row = rows->front().Bytes(0, 0);
    return true;
  }

  bool Scan(std::uint64_t from, std::size_t rows_max, const Visit& visit) override {
    while (rows_max > 0) {
      const std::size_t asked = std::min(rows_max, kPlacedRows);
      const auto answered =
          look_.Ask(kPlacedScan, PgArguments().Int(AsInt(from)).Bytes(group_).Int(AsInt(asked)));
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
  PgLook& look_;
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

#define PG_NEWS_MS(at) "(extract(epoch FROM " at ") * 1000)::bigint"

// Those that have shown a sign of life since then, or for so long, and when the last row of each
// was written. The first row is about the database alone.
constexpr PgStatement kNewsStreams{
    "news_streams",
    "SELECT 0, 0, " PG_NEWS_MS("now()") " UNION ALL"
    " SELECT s.stream, s.head, coalesce((SELECT " PG_NEWS_MS("e.at") " FROM event e"
    "  WHERE e.stream = s.stream AND e.number = s.head LIMIT 1), 0)"
    " FROM stream s WHERE s.stream > 0 AND s.grp = $1::text"
    " AND s.at > CASE WHEN $2::bigint > 0 THEN to_timestamp($2::bigint / 1000.0)"
    "  ELSE now() + $2::bigint * interval '1 ms' END ORDER BY 1"};
// The last row that is older than that, of those after `$2`.
constexpr PgStatement kNewsOlder{
    "news_older",
    "SELECT number FROM event WHERE stream = $1::bigint AND number > $2::bigint"
    " AND at <= to_timestamp($3::bigint / 1000.0) ORDER BY number DESC LIMIT 1"};
constexpr PgStatement kNewsRows{
    "news_rows",
    "SELECT number, won, bytes FROM event WHERE stream = $1::bigint AND number > $2::bigint"
    " AND number <= $3::bigint ORDER BY number LIMIT $4::bigint"};

#undef PG_NEWS_MS

// Rows as a log whose numbers are those of a list.
class RowsAsLog final : public EventLog {
 public:
  explicit RowsAsLog(const std::vector<std::string>& rows) : rows_(rows) {}

  std::expected<void, AppendError> Append(const RowBatch& /*batch*/) override {
    return std::unexpected(AppendError{.reason = "it is read only"});
  }
  std::unique_ptr<Reader> NewReader() override {
    class ListReader final : public Reader {
     public:
      explicit ListReader(const std::vector<std::string>& rows) : rows_(rows) {}
      bool Read(std::uint64_t /*seq*/, std::string& /*row*/) override { return false; }
      bool Scan(std::uint64_t from, std::size_t rows_max, const Visit& visit) override {
        for (std::uint64_t seq = from; seq <= rows_.size() && seq - from < rows_max; ++seq) {
          if (!visit(seq, rows_[seq - 1])) break;
        }
        return true;
      }

     private:
      const std::vector<std::string>& rows_;
    };
    return std::make_unique<ListReader>(rows_);
  }
  std::uint64_t last_seq() override { return rows_.size(); }
  // The rows that are asked for are all of these.
  std::uint64_t PlaceOf(std::uint64_t id) override {
    return id == std::numeric_limits<std::uint64_t>::max() ? id : 0;
  }
  LogBase base() override { return {}; }
  std::string LoadAges() override { return {}; }
  LogSizes sizes() override { return {}; }
  LogSpace Space(std::uint64_t need) override { return {need, 0}; }

 private:
  const std::vector<std::string>& rows_;
};

}  // namespace

std::expected<void, AppendError> PgPlacedLog::Append(const RowBatch& /*batch*/) {
  return std::unexpected(AppendError{.reason = "it is written elsewhere"});
}

std::unique_ptr<EventLog::Reader> PgPlacedLog::NewReader() {
  return std::make_unique<PlacedReader>(look_, group_);
}

std::optional<Error> PgPlacedLog::away() const {
  return look_.is_away() ? std::optional(PgAway()) : std::nullopt;
}

std::uint64_t PgPlacedLog::last_seq() {
  const auto rows = look_.Ask(kLastPlace, PgArguments().Bytes(group_));
  return rows && rows->front().size() > 0 ? rows->front().Number(0, 0) : 0;
}

std::uint64_t PgPlacedLog::PlaceOf(std::uint64_t id) {
  const RowId row = UnpackRowId(id);
  // The ends of the log.
  if (id == 0 || row.stream > kRowStreamMax) return id;
  const auto rows =
      look_.Ask(kPlaceOf, PgArguments().Int(row.stream).Int(AsInt(row.number)).Bytes(group_));
  return rows && rows->front().size() > 0 ? rows->front().Number(0, 0) : 0;
}

EventLog::Placed PgPlacedLog::Before(std::uint64_t place, std::size_t rows) {
  const std::uint64_t last =
      std::min<std::uint64_t>(place, std::numeric_limits<std::int64_t>::max());
  const auto found =
      look_.Ask(kPlacedBefore, PgArguments().Int(AsInt(last)).Bytes(group_).Int(AsInt(rows)));
  if (!found || found->front().size() == 0) return {};
  const PgRows& row = found->front();
  return {PackRowId({static_cast<std::uint32_t>(row.Int(0, 0)), row.Number(0, 1)}),
          row.Number(0, 2)};
}

namespace {

// nullopt: the line of its rows does not lead to it, as of what observe mode has written.
std::optional<EventPage> ListPgOperation(PgReader& reader, const std::string& group,
                                         const SharedKeys& keys, EventFilter filter) {
  PgPlacedLog places(reader, group);
  const std::uint64_t after = places.PlaceOf(filter.after), up_to = places.PlaceOf(filter.up_to);
  const RowId id = UnpackRowId(*filter.operation);
  const auto answered = reader.Ask(kOperationRows, PgArguments()
                                                       .Int(id.stream)
                                                       .Int(AsInt(id.number))
                                                       .Bytes(group)
                                                       .Int(AsInt(kOperationRowsMax)));
  if (!answered || places.away()) return std::nullopt;
  const PgRows& rows = answered->front();
  std::vector<std::string> asked;
  bool is_its = false;
  for (int row = 0; row < rows.size(); ++row) {
    const auto view = ParseRow(rows.Bytes(row, 1));
    EventFront front;
    if (!view || !DecodeEventFront(*view, front)) return std::nullopt;
    is_its = is_its || front.operation == *filter.operation;
    const std::uint64_t place = rows.Number(row, 0);
    if (place > after && place <= up_to) asked.emplace_back(rows.Bytes(row, 1));
  }
  if (!is_its || static_cast<std::size_t>(rows.size()) >= kOperationRowsMax) return std::nullopt;
  filter.after = 0;
  filter.up_to = std::numeric_limits<std::uint64_t>::max();
  RowsAsLog log(asked);
  auto page = ListEvents(log, keys, filter);
  if (!page) return std::nullopt;
  return std::move(*page);
}

}  // namespace

Result<EventPage> ListPgEvents(PgReader& reader, const std::string& group, const SharedKeys& keys,
                               const EventFilter& filter) {
  if (filter.operation && filter.back == 0) {
    if (auto page = ListPgOperation(reader, group, keys, filter)) return std::move(*page);
  }
  PgPlacedLog log(reader, group);
  auto page = ListEvents(log, keys, filter);
  if (log.away()) return std::unexpected(PgAway());
  return page;
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
    if (!answered || log.away()) return std::unexpected(PgAway());
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

Result<PgNews::Look> PgNews::LookAt(std::int64_t since_ms) {
  const auto answered = reader_.Ask(kNewsStreams, PgArguments().Bytes(group_).Int(since_ms));
  if (!answered) return std::unexpected(PgAway());
  const PgRows& rows = answered->front();
  Look look{.now_ms = rows.Int(0, 2)};
  for (int row = 1; row < rows.size(); ++row) {
    look.streams.push_back({.stream = static_cast<std::uint32_t>(rows.Int(row, 0)),
                            .head = rows.Number(row, 1),
                            .wrote_ms = rows.Int(row, 2)});
  }
  return look;
}

NewsPlace PgNews::EndOf(const Look& look) {
  NewsPlace place{.at_ms = look.now_ms};
  for (const Stream& stream : look.streams) {
    if (stream.wrote_ms > look.now_ms - NewsPlace::kSettledMs) {
      place.told.emplace(stream.stream, stream.head);
    }
  }
  return place;
}

Result<NewsPlace> PgNews::End() {
  const auto look = LookAt(-NewsPlace::kSettledMs);
  if (!look) return std::unexpected(look.error());
  return EndOf(*look);
}

Result<std::optional<std::uint64_t>> PgNews::BeginOf(const NewsPlace& place, const Stream& stream) {
  const std::uint64_t most = limits::kStreamBacklogRows;
  const std::uint64_t least = stream.head - std::min(stream.head, most);
  if (const auto told = place.told.find(stream.stream); told != place.told.end()) {
    return told->second < least ? std::nullopt : std::optional(told->second);
  }
  const std::int64_t settled_ms = place.at_ms - NewsPlace::kSettledMs;
  if (stream.wrote_ms <= settled_ms) return stream.head;
  const auto older =
      reader_.Ask(kNewsOlder, PgArguments().Int(stream.stream).Int(AsInt(least)).Int(settled_ms));
  if (!older) return std::unexpected(PgAway());
  if (older->front().size() > 0) return older->front().Number(0, 0);
  return least == 0 ? std::optional<std::uint64_t>(0) : std::nullopt;
}

Result<PgNews::Rows> PgNews::Read(const Stream& stream, std::uint64_t after, std::size_t limit) {
  const auto answered = reader_.Ask(
      kNewsRows,
      PgArguments().Int(stream.stream).Int(AsInt(after)).Int(AsInt(stream.head)).Int(AsInt(limit)));
  if (!answered) return std::unexpected(PgAway());
  const PgRows& rows = answered->front();
  Rows read{.bytes = {}, .up_to = stream.head};
  for (int row = 0; row < rows.size(); ++row) {
    if (rows.Int(row, 1) != 0) read.bytes.emplace_back(rows.Bytes(row, 2));
    // Retention may have removed what is missing at the end.
    if (static_cast<std::size_t>(rows.size()) == limit) read.up_to = rows.Number(row, 0);
  }
  return read;
}

// Where each stream goes on, in their order; nullopt: too much has come, or a clock that went back
// no longer tells what was told.
Result<std::optional<std::vector<std::uint64_t>>> PgNews::Begins(const NewsPlace& place,
                                                                 const Look& look) {
  std::vector<std::uint64_t> begins;
  if (place.at_ms == 0 || look.now_ms < place.at_ms) return std::nullopt;
  std::uint64_t left = 0;
  for (const Stream& stream : look.streams) {
    const auto begin = BeginOf(place, stream);
    if (!begin) return std::unexpected(begin.error());
    if (!*begin) return std::nullopt;
    begins.push_back(std::min(**begin, stream.head));
    left += stream.head - begins.back();
    if (left > limits::kStreamBacklogRows) return std::nullopt;
  }
  return begins;
}

Result<SharedLedgerView::News> PgNews::After(const NewsPlace& place, EventFilter filter) {
  const auto look = LookAt(place.at_ms - NewsPlace::kSettledMs);
  if (!look) return std::unexpected(look.error());
  const auto begins = Begins(place, *look);
  if (!begins) return std::unexpected(begins.error());
  SharedLedgerView::News news{.page = {}, .to = EndOf(*look)};
  news.is_behind = !*begins;
  if (news.is_behind) return news;
  std::vector<std::string> rows;
  std::size_t at = 0;
  for (const Stream& stream : look->streams) {
    std::uint64_t told = (**begins)[at++];
    const std::size_t room = limits::kStreamPageRows - rows.size();
    if (told < stream.head && room > 0) {
      auto read = Read(stream, told, room);
      if (!read) return std::unexpected(read.error());
      told = read->up_to;
      std::ranges::move(read->bytes, std::back_inserter(rows));
    }
    if (told == stream.head) continue;
    news.to.told[stream.stream] = told;
    news.more = true;
  }
  // What is left for the next page is as old as it was.
  if (news.more) news.to.at_ms = place.at_ms;
  filter.after = 0;
  filter.up_to = std::numeric_limits<std::uint64_t>::max();
  filter.limit = limits::kAdminPageMax;
  RowsAsLog log(rows);
  auto page = ListEvents(log, keys_, filter);
  if (!page) return std::unexpected(page.error());
  news.page = std::move(*page);
  return news;
}

}  // namespace recourse
