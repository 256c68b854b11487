#include "filters/ledger/open/shared_audit.h"

#include <utility>

#include "filters/ledger/postgres/schema.h"

namespace recourse {
namespace {

// Some of what is asked goes through whole tables.
constexpr Millis kAuditAnswerWithin{600'000};

}  // namespace

std::expected<std::unique_ptr<SharedAudit>, std::string> SharedAudit::Open(
    const SharedLedger& ledger, SharedKeys keys) {
  const PgOptions options{.url = ledger.url.place,
                          .password_file = ledger.password_file,
                          .answer_within = kAuditAnswerWithin};
  auto connection = PgConnection::Open(options);
  if (!connection) return std::unexpected(connection.error());
  const auto facts = ReadPgLedgerFacts(**connection);
  if (!facts) return std::unexpected(facts.error());
  std::unique_ptr<SharedAudit> audit(new SharedAudit(options, std::move(keys)));
  audit->identity_ = facts->identity;
  auto streams = ListPgStreams(audit->reader_);
  if (!streams) return std::unexpected(streams.error());
  audit->streams_ = std::move(*streams);
  return audit;
}

LogBase SharedAudit::BaseOf(const SharedStream& stream) {
  return PgEventLog(reader_, stream.stream).base();
}

Result<std::vector<LoggedRow>> SharedAudit::Rows(const SharedStream& stream, std::uint64_t after,
                                                 std::size_t limit) {
  PgEventLog log(reader_, stream.stream);
  return ListRows(log, keys_, after, stream.last_id, limit);
}

}  // namespace recourse
