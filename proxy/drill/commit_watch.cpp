#include "proxy/drill/commit_watch.h"

#include <utility>
#include <vector>

#include "filters/ledger/rows/row_codec.h"

namespace recourse {
namespace {

class WatchedLog final : public EventLog {
 public:
  WatchedLog(std::unique_ptr<EventLog> log, CommitWatch watch)
      : log_(std::move(log)), watch_(std::move(watch)) {}

  std::expected<void, AppendError> Append(const RowBatch& batch) override {
    const std::vector<RowNote> notes = NotesOf(batch);
    if (!notes.empty()) watch_.before(notes);
    auto done = log_->Append(batch);
    if (done && !notes.empty()) watch_.after(notes);
    return done;
  }
  std::unique_ptr<Reader> NewReader() override { return log_->NewReader(); }
  std::uint64_t last_seq() override { return log_->last_seq(); }
  LogBase base() override { return log_->base(); }
  std::string LoadAges() override { return log_->LoadAges(); }
  LogSizes sizes() override { return log_->sizes(); }
  LogSpace Space(std::uint64_t need) override { return log_->Space(need); }
  std::expected<std::unique_ptr<LedgerCopy>, std::string> StartCopy() override {
    return log_->StartCopy();
  }
  bool has_failed() override { return log_->has_failed(); }
  Digest identity() const override { return log_->identity(); }

 private:
  const std::unique_ptr<EventLog> log_;
  const CommitWatch watch_;
};

}  // namespace

std::vector<RowNote> NotesOf(const RowBatch& batch) {
  std::vector<RowNote> notes;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto row = ParseRow(batch.row(i));
    if (!row) continue;
    EventFront front;
    FlowState flow;
    if (row->head.kind == RowKind::kEvent && DecodeEventFront(*row, front)) {
      notes.push_back({front.operation, front.undoes, std::string(NameOf(front.phase))});
    } else if (row->head.kind == RowKind::kFlow && DecodeFlow(*row, flow)) {
      notes.push_back({0, 0, std::string(NameOf(flow.phase))});
    }
  }
  return notes;
}

std::unique_ptr<EventLog> WatchCommits(std::unique_ptr<EventLog> log, CommitWatch watch) {
  return std::make_unique<WatchedLog>(std::move(log), std::move(watch));
}

}  // namespace recourse
