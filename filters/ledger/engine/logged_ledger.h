// What a ledger over an engine answers from its log alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "filters/ledger/engine/engine.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/queries/audit.h"
#include "filters/ledger/queries/operation_queries.h"

namespace recourse {

class LoggedLedger : public Ledger, public OperationLister, public LedgerAuditor {
 public:
  Result<std::vector<LoggedRow>> Rows(std::uint64_t after, std::uint64_t up_to,
                                      std::size_t limit) override;
  Result<EventPage> List(const EventFilter& filter) override;
  Result<std::optional<Event>> Find(std::uint64_t id) override;
  Result<OperationPage> Operations(const OperationFilter& filter) override;
  Result<std::optional<FlowState>> FindFlow(std::uint64_t number) override;
  Result<std::vector<FlowState>> NewestFlows(std::size_t limit) override;
  VerifyReport Verify() override;

 protected:
  // `engine` has been started (recovery.h). `clock` outlives the ledger.
  LoggedLedger(std::unique_ptr<Engine> engine, const Clock& clock);

  // Both may be called on any thread.
  virtual Result<std::vector<bool>> AreNewest(const std::vector<OperationRow>& rows) = 0;
  virtual LogHead CommittedHead() = 0;

  const Clock& clock_;
  const std::unique_ptr<Engine> engine_;
};

}  // namespace recourse
