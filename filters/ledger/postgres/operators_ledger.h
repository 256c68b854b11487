// What operators ask of a ledger in PostgreSQL that its lane has no part in: over a connection
// beside it, about all streams of the group.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/postgres/reader.h"
#include "filters/ledger/queries/operation_queries.h"
#include "filters/ledger/shared_view.h"

namespace recourse {

// How long the group's next turn at retention waits after the one before.
Millis KeeperEvery(const LedgerRule& rule);

// What no turn in time would have left is old. Fails with a line for people.
std::expected<KeptRows, std::string> ReadPgKeptRows(PgReader& reader, const std::string& group,
                                                    const LedgerRule& rule);

class PgOperatorsLedger : public Ledger, public OperationLister, public SharedLedgerView {
 public:
  Result<EventPage> List(const EventFilter& filter) override;
  Result<std::optional<Event>> Find(std::uint64_t id) override;
  Result<OperationPage> Operations(const OperationFilter& filter) override;
  Result<std::optional<FlowState>> FindFlow(std::uint64_t number) override;
  Result<std::vector<FlowState>> NewestFlows(std::size_t limit) override;
  std::expected<void, std::string> AcceptRestoredBackup() override;
  const std::string& Group() const override { return of_.group; }
  Result<bool> HasImported() override;
  Result<std::vector<LedgerStream>> Streams() override;
  Result<KeptRows> Kept(const LedgerRule& rule) override;
  std::string PodOf(std::uint64_t stream) override;

 protected:
  struct Of {
    PgOptions connection;
    std::string group;
    std::shared_ptr<const LedgerKeys> keys;
    const Clock& clock;
  };
  explicit PgOperatorsLedger(Of of) : of_(std::move(of)), reader_(of_.connection) {}
  PgReader& reader() { return reader_; }

 private:
  const Of of_;
  PgReader reader_;
};

}  // namespace recourse
