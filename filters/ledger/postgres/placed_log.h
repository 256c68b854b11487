// The rows of a group's streams in the order in which they were written, whoever wrote them; read
// only. A place is a number that grows over all streams.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "filters/ledger/postgres/reader.h"
#include "filters/ledger/queries/operation_queries.h"

namespace recourse {

class PgPlacedLog final : public EventLog {
 public:
  PgPlacedLog(PgReader& reader, std::string group) : reader_(reader), group_(std::move(group)) {}

  std::expected<void, AppendError> Append(const RowBatch& batch) override;
  std::unique_ptr<Reader> NewReader() override;
  std::uint64_t last_seq() override;  // a place
  LogBase base() override { return {}; }
  std::string LoadAges() override { return {}; }
  LogSizes sizes() override { return {}; }
  LogSpace Space(std::uint64_t need) override { return {need, 0}; }
  std::uint64_t PlaceOf(std::uint64_t id) override;

 private:
  PgReader& reader_;
  const std::string group_;
};

// As OperationLister::Operations, of the whole group.
Result<OperationPage> ListPgOperations(PgReader& reader, const std::string& group,
                                       const SharedKeys& keys, const OperationFilter& filter);

}  // namespace recourse
