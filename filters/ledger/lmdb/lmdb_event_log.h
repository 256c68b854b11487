// The rows in LMDB: database `events`, key = row number as eight big-endian bytes, appended.
// Database `meta`: the schema number and the identity of this install.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "filters/ledger/event_log.h"
#include "filters/ledger/lmdb/lmdb_env.h"

namespace recourse {

class LmdbEventLog final : public EventLog {
 public:
  // Takes over an opened environment. Fails with a line for people when the schema is not known.
  static std::expected<std::unique_ptr<LmdbEventLog>, std::string> Open(
      std::unique_ptr<LmdbEnv> env);

  std::expected<void, std::string> Append(const RowBatch& batch) override;
  std::unique_ptr<Reader> NewReader() override;
  std::uint64_t last_seq() override { return last_seq_.load(std::memory_order_acquire); }
  LogSizes sizes() override;

 private:
  class LmdbReader;

  LmdbEventLog(std::unique_ptr<LmdbEnv> env, unsigned int events)
      : env_(std::move(env)), events_(events) {}
  std::expected<void, std::string> CheckSchema(unsigned int meta);
  std::expected<void, std::string> FindLast();

  // constant after construction
  const std::unique_ptr<LmdbEnv> env_;
  const unsigned int events_;

  std::atomic<std::uint64_t> last_seq_ = 0;
};

}  // namespace recourse
