#include "filters/ledger/postgres/operators_ledger.h"

#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/pg_values.h"
#include "filters/ledger/postgres/placed_log.h"
#include "filters/ledger/postgres/schema.h"
#include "filters/ledger/postgres/waits.h"
#include "filters/ledger/queries/flow_queries.h"
#include "filters/ledger/queries/log_queries.h"

namespace recourse {
namespace {

constexpr PgStatement kStreamsToShow{
    "streams_to_show",
    "SELECT stream, pod, state::bigint, head - base, open,"
    " greatest(0, extract(epoch FROM now() - at))::bigint FROM stream"
    " WHERE grp = $1::text AND state <> 3 ORDER BY stream"};

constexpr PgStatement kPodOf{"pod_of",
                             "SELECT pod FROM stream WHERE grp = $1::text AND stream = $2::bigint"};

}  // namespace

Result<EventPage> PgOperatorsLedger::List(const EventFilter& filter) {
  PgPlacedLog log(reader_, of_.group);
  return ListEvents(log, of_.keys, filter);
}

Result<std::optional<Event>> PgOperatorsLedger::Find(std::uint64_t id) {
  PgEventLog log(reader_, 0);
  std::string bytes;
  if (!log.NewReader()->Read(id, bytes)) return std::nullopt;
  return FindEvent(log, of_.keys, id);
}

Result<OperationPage> PgOperatorsLedger::Operations(const OperationFilter& filter) {
  return ListPgOperations(reader_, of_.group, of_.keys, filter);
}

Result<std::optional<FlowState>> PgOperatorsLedger::FindFlow(std::uint64_t number) {
  PgPlacedLog log(reader_, of_.group);
  return recourse::FindFlow(log, number, ToUnixMillis(of_.clock.WallNow()));
}

Result<std::vector<FlowState>> PgOperatorsLedger::NewestFlows(std::size_t limit) {
  PgPlacedLog log(reader_, of_.group);
  return recourse::NewestFlows(log, limit, ToUnixMillis(of_.clock.WallNow()));
}

std::expected<void, std::string> PgOperatorsLedger::AcceptRestoredBackup() {
  auto connection = PgConnection::Open(of_.connection);
  if (!connection) return std::unexpected(connection.error());
  const auto accepted = AcceptPgRestored(**connection, {});
  if (!accepted) return std::unexpected(accepted.error());
  return {};
}

Result<std::vector<LedgerStream>> PgOperatorsLedger::Streams() {
  const auto answered = reader_.Ask(kStreamsToShow, PgArguments().Bytes(of_.group));
  if (!answered) return std::unexpected(PgAway());
  std::vector<LedgerStream> streams;
  const PgRows& rows = answered->front();
  for (int row = 0; row < rows.size(); ++row) {
    streams.push_back({.stream = rows.Number(row, 0),
                       .pod = std::string(rows.Bytes(row, 1)),
                       .state = std::string(ShownState(static_cast<StreamState>(rows.Int(row, 2)),
                                                       rows.Int(row, 5))),
                       .rows = rows.Number(row, 3),
                       .running = rows.Number(row, 4),
                       .silent_s = rows.Int(row, 5)});
  }
  return streams;
}

std::string PgOperatorsLedger::PodOf(std::uint64_t stream) {
  const auto answered = reader_.Ask(kPodOf, PgArguments().Bytes(of_.group).Int(AsInt(stream)));
  const bool is_known = answered && answered->front().size() == 1;
  return is_known ? std::string(answered->front().Bytes(0, 0)) : std::string();
}

}  // namespace recourse
