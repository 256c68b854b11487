#include "filters/ledger/open/shared_audit.h"

#include <utility>

#include "filters/ledger/postgres/schema.h"

namespace recourse {
namespace {

// Some of what is asked goes through whole tables.
constexpr Millis kAuditAnswerWithin{600'000};

}  // namespace

std::expected<std::unique_ptr<SharedAudit>, SharedAudit::Unaudited> SharedAudit::Open(
    const SharedLedger& ledger, SharedKeys keys) {
  const PgOptions options{.url = ledger.url.place,
                          .password_file = ledger.password_file,
                          .answer_within = kAuditAnswerWithin};
  auto connection = PgConnection::Open(options);
  if (!connection) return std::unexpected(Unaudited{connection.error().why, true});
  const auto facts = ReadPgLedgerFacts(**connection);
  if (!facts) return std::unexpected(Unaudited{facts.error().why, facts.error().may_pass});
  std::unique_ptr<SharedAudit> audit(new SharedAudit(options, std::move(keys)));
  audit->identity_ = facts->identity;
  auto streams = ListPgStreams(audit->reader_);
  if (!streams) return std::unexpected(Unaudited{streams.error(), true});
  audit->streams_ = std::move(*streams);
  return audit;
}

VerifyReport SharedAudit::Verify(const SharedStream& stream) {
  VerifyReport report = VerifyPgStream(reader_, keys_, stream);
  if (report.is_away) report.problem = reader_.failure();
  return report;
}

std::expected<std::string, std::string> SharedAudit::CheckTables() {
  auto problem = CheckPgTables(reader_);
  if (!problem) return std::unexpected(reader_.failure());
  return problem;
}

std::expected<std::vector<std::uint64_t>, std::string> SharedAudit::Gaps() {
  auto gaps = PgStreamGaps(reader_);
  if (!gaps) return std::unexpected(reader_.failure());
  return gaps;
}

std::expected<LogBase, std::string> SharedAudit::BaseOf(const SharedStream& stream) {
  PgEventLog log(reader_, stream.stream);
  const LogBase base = log.base();
  if (log.away()) return std::unexpected(reader_.failure());
  return base;
}

std::expected<std::vector<LoggedRow>, std::string> SharedAudit::Rows(const SharedStream& stream,
                                                                     std::uint64_t after,
                                                                     std::size_t limit) {
  PgEventLog log(reader_, stream.stream);
  auto rows = ListRows(log, keys_, after, stream.last_id, limit);
  if (rows) return std::move(*rows);
  return std::unexpected(log.away() ? reader_.failure() : std::string(rows.error().detail()));
}

}  // namespace recourse
