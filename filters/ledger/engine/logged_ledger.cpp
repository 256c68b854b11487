#include "filters/ledger/engine/logged_ledger.h"

#include <utility>

#include "filters/ledger/queries/flow_queries.h"
#include "filters/ledger/queries/log_queries.h"

namespace recourse {

LoggedLedger::LoggedLedger(std::unique_ptr<Engine> engine, const Clock& clock)
    : clock_(clock), engine_(std::move(engine)) {}

Result<std::vector<LoggedRow>> LoggedLedger::Rows(std::uint64_t after, std::uint64_t up_to,
                                                  std::size_t limit) {
  return ListRows(engine_->log(), engine_->keys(), after, up_to, limit);
}

Result<EventPage> LoggedLedger::List(const EventFilter& filter) {
  return ListEvents(engine_->log(), engine_->keys(), filter);
}

Result<std::optional<Event>> LoggedLedger::Find(std::uint64_t id) {
  return FindEvent(engine_->log(), engine_->keys(), id);
}

Result<OperationPage> LoggedLedger::Operations(const OperationFilter& filter) {
  return ListOperations(engine_->log(), engine_->keys(), filter,
                        [this](const std::vector<OperationRow>& rows) { return AreNewest(rows); });
}

Result<std::optional<FlowState>> LoggedLedger::FindFlow(std::uint64_t number) {
  return recourse::FindFlow(engine_->log(), number, ToUnixMillis(clock_.WallNow()));
}

Result<std::vector<FlowState>> LoggedLedger::NewestFlows(std::size_t limit) {
  return recourse::NewestFlows(engine_->log(), limit, ToUnixMillis(clock_.WallNow()));
}

VerifyReport LoggedLedger::Verify() {
  const LogHead head = CommittedHead();
  return VerifyLog(engine_->log(), engine_->keys(), head.seq, head.hash);
}

}  // namespace recourse
