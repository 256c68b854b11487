#include "filters/ledger/postgres/reader.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/waits.h"

namespace recourse {
namespace {

constexpr PgStatement kOneRow{
    "one_row", "SELECT bytes FROM event WHERE stream = $1::bigint AND number = $2::bigint AND won"};
constexpr PgStatement kOneRowOfGroup{
    "one_row_of_group",
    "SELECT bytes FROM event WHERE stream = $1::bigint AND number = $2::bigint AND won"
    " AND grp = $3::text"};
constexpr PgStatement kScan{
    "scan",
    "SELECT stream, number, bytes FROM event WHERE (stream, number) >= ($1::bigint, $2::bigint)"
    " AND stream <= $3::bigint ORDER BY stream, number LIMIT $4::bigint"};
constexpr PgStatement kEnd{"end_of_streams",
                           "SELECT stream, head FROM stream WHERE $1::bigint IN (0, stream)"
                           " ORDER BY stream DESC LIMIT 1"};

constexpr PgStatement kBase{"base_of_stream",
                            "SELECT base, base_chain FROM stream WHERE stream = $1::bigint"};

constexpr std::size_t kScanRows = 256;
// A question that has failed after so long met a server that says nothing.
constexpr Millis kPgSilence{1'000};

class PgLogReader final : public EventLog::Reader {
 public:
  PgLogReader(PgLook& look, std::uint64_t stream, std::optional<std::string> group)
      : look_(look), stream_(stream), group_(std::move(group)) {}

  bool Read(std::uint64_t seq, std::string& row) override {
    const RowId id = UnpackRowId(seq);
    PgArguments asked;
    asked.Int(id.stream).Int(AsInt(id.number));
    if (group_) asked.Bytes(*group_);
    const auto rows = look_.Ask(group_ ? kOneRowOfGroup : kOneRow, asked);
    if (!rows || rows->front().size() == 0) return false;
    row = rows->front().Bytes(0, 0);
    return true;
  }

  bool Scan(std::uint64_t from, std::size_t rows_max, const Visit& visit) override {
    RowId next = UnpackRowId(from);
    const std::uint64_t up_to = stream_ != 0 ? stream_ : kRowStreamMax;
    while (rows_max > 0) {
      const std::size_t asked = std::min(rows_max, kScanRows);
      const auto answered = look_.Ask(kScan, PgArguments()
                                                 .Int(next.stream)
                                                 .Int(AsInt(next.number))
                                                 .Int(AsInt(up_to))
                                                 .Int(AsInt(asked)));
      if (!answered) return false;
      const PgRows& rows = answered->front();
      for (int row = 0; row < rows.size(); ++row) {
        next = {static_cast<std::uint32_t>(rows.Int(row, 0)), rows.Number(row, 1)};
        if (!visit(PackRowId(next), rows.Bytes(row, 2))) return true;
      }
      if (static_cast<std::size_t>(rows.size()) < asked) return true;
      rows_max -= asked;
      ++next.number;
    }
    return true;
  }

 private:
  PgLook& look_;
  const std::uint64_t stream_;
  const std::optional<std::string> group_;
};

}  // namespace

std::expected<std::vector<PgRows>, PgReader::Unanswered> PgReader::TryToAsk(
    const PgStatement& statement, const PgArguments& arguments) {
  const MonoTime start = PgNow();
  std::string why;
  for (int tries = 0; tries < 2; ++tries) {
    if (auto connected = Connect(); !connected) {
      why = std::move(connected.error());
      break;
    }
    connection_->Queue(statement, arguments);
    auto rows = connection_->Run();
    if (rows) return std::move(*rows);
    if (!connection_->is_lost()) {
      return std::unexpected(Unanswered{UnopenedBy(*connection_, rows.error(), {}).why, true});
    }
    why = std::move(rows.error().text);
    if (PgNow() - start >= kPgSilence) break;
  }
  if (PgNow() - start >= kPgSilence) silent_until_ = PgNow() + kPgSilence;
  return std::unexpected(Unanswered{std::move(why)});
}

std::expected<void, std::string> PgReader::Connect() {
  if (connection_ != nullptr && !connection_->is_lost()) return {};
  connection_.reset();
  if (!opening_.valid()) {
    const auto launch = patience_ ? std::launch::async : std::launch::deferred;
    opening_ = std::async(launch, [this] { return PgConnection::Open(options_); });
  }
  if (patience_ && opening_.wait_for(*patience_) != std::future_status::ready) {
    return std::unexpected(std::string(PgAway().detail()));
  }
  auto opened = opening_.get();
  if (!opened) return std::unexpected(std::move(opened.error().why));
  connection_ = std::move(*opened);
  return {};
}

std::unexpected<std::string> PgReader::Fail(Unanswered failed) {
  const std::lock_guard lock(failure_mutex_);
  failure_ = (failed.is_refused ? "" : "the ledger's database does not answer: ") + failed.why;
  return std::unexpected(std::move(failed.why));
}

std::expected<std::vector<PgRows>, std::string> PgReader::Ask(const PgStatement& statement,
                                                              const PgArguments& arguments) {
  std::unique_lock lock(mutex_, std::defer_lock);
  const bool is_silent = patience_ && PgNow() < silent_until_.load();
  if (is_silent || (patience_ && !lock.try_lock_for(*patience_))) {
    return Fail({std::string(PgAway().detail())});
  }
  if (!lock.owns_lock()) lock.lock();
  auto rows = TryToAsk(statement, arguments);
  if (!rows) return Fail(std::move(rows.error()));
  return std::move(*rows);
}

std::string PgReader::failure() {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

std::expected<std::vector<PgRows>, std::string> PgLook::Ask(const PgStatement& statement,
                                                            const PgArguments& arguments) {
  auto rows = reader_.Ask(statement, arguments);
  if (!rows) is_away_ = true;
  return rows;
}

std::expected<void, AppendError> PgEventLog::Append(const RowBatch& /*batch*/) {
  return std::unexpected(AppendError{.reason = "it is written elsewhere"});
}

std::unique_ptr<EventLog::Reader> PgEventLog::NewReader() {
  return std::make_unique<PgLogReader>(look_, stream_, group_);
}

std::uint64_t PgEventLog::last_seq() {
  const auto rows = look_.Ask(kEnd, PgArguments().Int(AsInt(stream_)));
  if (!rows || rows->front().size() == 0) return 0;
  return PackRowId(
      {static_cast<std::uint32_t>(rows->front().Int(0, 0)), rows->front().Number(0, 1)});
}

LogBase PgEventLog::base() {
  RowId first{.stream = static_cast<std::uint32_t>(stream_), .number = 1};
  LogBase base;
  const auto rows = look_.Ask(kBase, PgArguments().Int(AsInt(stream_)));
  if (rows && rows->front().size() == 1) {
    first.number = rows->front().Number(0, 0) + 1;
    const std::string_view hash = rows->front().Bytes(0, 1);
    if (hash.size() == base.prev_hash.size()) {
      std::copy(hash.begin(), hash.end(), base.prev_hash.begin());
    }
  }
  base.first_seq = PackRowId(first);
  return base;
}

std::optional<Error> PgEventLog::away() const {
  return look_.is_away() ? std::optional(PgAway()) : std::nullopt;
}

}  // namespace recourse
