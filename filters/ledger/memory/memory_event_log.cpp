#include "filters/ledger/memory/memory_event_log.h"

#include <mutex>

#include "proxy/base/check.h"

namespace recourse {

class MemoryEventLog::MemoryReader final : public EventLog::Reader {
 public:
  explicit MemoryReader(MemoryEventLog& log) : log_(log) {}

  bool Read(std::uint64_t seq, std::string& row) override {
    const std::shared_lock lock(log_.mutex_);
    if (seq == 0 || seq > log_.rows_.size()) return false;
    row = log_.rows_[seq - 1];
    return true;
  }

  bool Scan(std::uint64_t from, std::size_t rows_max, const Visit& visit) override {
    const std::shared_lock lock(log_.mutex_);
    std::uint64_t seq = from == 0 ? 1 : from;
    for (std::size_t i = 0; i < rows_max && seq <= log_.rows_.size(); ++i, ++seq) {
      if (!visit(seq, log_.rows_[seq - 1])) break;
    }
    return true;
  }

 private:
  MemoryEventLog& log_;
};

std::expected<void, std::string> MemoryEventLog::Append(const RowBatch& batch) {
  const std::unique_lock lock(mutex_);
  RC_CHECK(batch.first_seq == rows_.size() + 1);
  for (std::size_t i = 0; i < batch.size(); ++i) rows_.emplace_back(batch.row(i));
  used_bytes_ += batch.bytes.size();
  return {};
}

std::unique_ptr<EventLog::Reader> MemoryEventLog::NewReader() {
  return std::make_unique<MemoryReader>(*this);
}

std::uint64_t MemoryEventLog::last_seq() {
  const std::shared_lock lock(mutex_);
  return rows_.size();
}

LogSizes MemoryEventLog::sizes() {
  const std::shared_lock lock(mutex_);
  return {used_bytes_, used_bytes_};
}

}  // namespace recourse
