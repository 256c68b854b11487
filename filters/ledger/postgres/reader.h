// What operators ask of a ledger in PostgreSQL, over a connection of its own. Thread-safe; blocks.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/rows/event_log.h"

namespace recourse {

class PgReader {
 public:
  explicit PgReader(PgOptions options) : options_(std::move(options)) {}

  // Once more over a new connection, where the one at hand was lost.
  std::expected<std::vector<PgRows>, std::string> Ask(const PgStatement& statement,
                                                      const PgArguments& arguments);

 private:
  const PgOptions options_;
  std::mutex mutex_;
  std::unique_ptr<PgConnection> connection_;  // guarded by mutex_
};

// Rows by their ids, of one stream or, with 0, of all one after the other; read only. Named by its
// number a row is there only if it is of the group, if one is given.
class PgEventLog : public EventLog {
 public:
  PgEventLog(PgReader& reader, std::uint64_t stream, std::optional<std::string> group = {})
      : reader_(reader), stream_(stream), group_(std::move(group)) {}

  std::expected<void, AppendError> Append(const RowBatch& batch) override;
  std::unique_ptr<Reader> NewReader() override;
  std::uint64_t last_seq() override;
  LogBase base() override;
  std::string LoadAges() override { return {}; }
  LogSizes sizes() override { return {}; }
  LogSpace Space(std::uint64_t need) override { return {need, 0}; }

 private:
  PgReader& reader_;
  const std::uint64_t stream_;
  const std::optional<std::string> group_;
};

}  // namespace recourse
