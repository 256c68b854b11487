#include "filters/ledger/postgres/operators_ledger.h"

#include <utility>

#include "filters/ledger/postgres/placed_log.h"
#include "filters/ledger/postgres/schema.h"
#include "filters/ledger/queries/flow_queries.h"
#include "filters/ledger/queries/log_queries.h"

namespace recourse {

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

}  // namespace recourse
