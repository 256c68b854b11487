// Rows in memory, for tests. Grows as far as retention lets it.
#pragma once

#include <cstdint>
#include <deque>
#include <shared_mutex>
#include <string>

#include "filters/ledger/rows/event_log.h"

namespace recourse {

class MemoryEventLog final : public EventLog {
 public:
  // `stream`: of its rows.
  explicit MemoryEventLog(std::uint32_t stream = 0);
  std::expected<void, AppendError> Append(const RowBatch& batch) override;
  std::unique_ptr<Reader> NewReader() override;
  std::uint64_t last_seq() override;
  LogBase base() override;
  std::string LoadAges() override;
  LogSizes sizes() override;
  LogSpace Space(std::uint64_t /*need*/) override { return {std::uint64_t{1} << 40, 0}; }

 private:
  class MemoryReader;

  std::shared_mutex mutex_;
  LogBase base_;                  // guarded by mutex_
  std::string ages_;              // guarded by mutex_
  std::deque<std::string> rows_;  // guarded by mutex_; the first one is base_.first_seq
  std::uint64_t used_bytes_ = 0;  // guarded by mutex_
};

}  // namespace recourse
