#include "filters/ledger/memory/memory_event_log.h"

#include <algorithm>
#include <mutex>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/check.h"

namespace recourse {

class MemoryEventLog::MemoryReader final : public EventLog::Reader {
 public:
  explicit MemoryReader(MemoryEventLog& log) : log_(log) {}

  bool Read(std::uint64_t seq, std::string& row) override {
    const std::shared_lock lock(log_.mutex_);
    const std::uint64_t first = log_.base_.first_seq;
    if (seq < first || seq - first >= log_.rows_.size()) return false;
    row = log_.rows_[seq - first];
    return true;
  }

  bool Scan(std::uint64_t from, std::size_t rows_max, const Visit& visit) override {
    const std::shared_lock lock(log_.mutex_);
    const std::uint64_t first = log_.base_.first_seq;
    std::uint64_t seq = std::max(from, first);
    for (std::size_t i = 0; i < rows_max && seq - first < log_.rows_.size(); ++i, ++seq) {
      if (!visit(seq, log_.rows_[seq - first])) break;
    }
    return true;
  }

 private:
  MemoryEventLog& log_;
};

MemoryEventLog::MemoryEventLog(std::uint32_t stream) {
  base_.first_seq = PackRowId({.stream = stream, .number = 1});
}

std::expected<void, AppendError> MemoryEventLog::Append(const RowBatch& batch) {
  const std::unique_lock lock(mutex_);
  RC_CHECK(batch.first_seq == base_.first_seq + rows_.size());
  for (std::size_t i = 0; i < batch.size(); ++i) rows_.emplace_back(batch.row(i));
  used_bytes_ += batch.bytes.size();
  if (!batch.ages.empty()) ages_ = batch.ages;
  if (!batch.base) return {};
  for (; base_.first_seq < batch.base->first_seq; ++base_.first_seq) {
    used_bytes_ -= rows_.front().size();
    rows_.pop_front();
  }
  base_ = *batch.base;
  return {};
}

std::unique_ptr<EventLog::Reader> MemoryEventLog::NewReader() {
  return std::make_unique<MemoryReader>(*this);
}

std::uint64_t MemoryEventLog::last_seq() {
  const std::shared_lock lock(mutex_);
  return base_.first_seq + rows_.size() - 1;
}

LogBase MemoryEventLog::base() {
  const std::shared_lock lock(mutex_);
  return base_;
}

std::string MemoryEventLog::LoadAges() {
  const std::shared_lock lock(mutex_);
  return ages_;
}

LogSizes MemoryEventLog::sizes() {
  const std::shared_lock lock(mutex_);
  return {used_bytes_, used_bytes_};
}

}  // namespace recourse
