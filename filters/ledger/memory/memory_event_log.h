// Rows in memory: for tests and for observing without remembering. Grows without bound.
#pragma once

#include <deque>
#include <shared_mutex>
#include <string>

#include "filters/ledger/event_log.h"

namespace recourse {

class MemoryEventLog final : public EventLog {
 public:
  std::expected<void, std::string> Append(const RowBatch& batch) override;
  std::unique_ptr<Reader> NewReader() override;
  std::uint64_t last_seq() override;
  LogSizes sizes() override;

 private:
  class MemoryReader;

  std::shared_mutex mutex_;
  std::deque<std::string> rows_;  // guarded by mutex_; row n stands at n - 1
  std::uint64_t used_bytes_ = 0;  // guarded by mutex_
};

}  // namespace recourse
