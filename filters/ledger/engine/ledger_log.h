// The rows of the ledger: those that are durable, and those of the batch that is being built, with
// the hash chain through both.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "filters/ledger/engine/ledger_clock.h"
#include "filters/ledger/engine/ledger_parts.h"
#include "filters/ledger/model/event.h"
#include "filters/ledger/rows/event_log.h"
#include "filters/ledger/rows/row_codec.h"
#include "proxy/base/error.h"

namespace recourse {

// One thread at a time. After a failed Commit nothing is written any more; what was committed can
// still be read.
class LedgerLog {
 public:
  LedgerLog(EventLog& log, std::shared_ptr<const LedgerKeys> keys, LedgerClock& clock);

  // Of what is committed.
  const LogHead& head() const { return head_; }
  std::uint64_t first_row() const { return first_row_; }
  std::uint64_t next_row() const { return batch_.first_seq + batch_.size(); }
  bool IsCommitted(std::uint64_t row) const { return row <= head_.seq; }
  bool is_latched() const { return is_latched_; }
  std::uint64_t commits() const { return commits_; }
  // Of the last batch.
  std::size_t committed_bytes() const { return committed_bytes_; }

  // A row that may be not committed yet.
  bool Read(std::uint64_t row, std::string& bytes);
  // A committed event, with its answer.
  Result<Event> Load(std::uint64_t row);
  // An event that may be not committed yet, without its answer.
  Result<Event> ReadEvent(std::uint64_t row, AnswerPart part = AnswerPart::kOnlyRequest);
  // The same with its answer; fails where its key is missing.
  Result<Event> ReadWhole(std::uint64_t row);
  // Its texts are not valid.
  Result<EventFront> ReadFront(std::uint64_t row);
  EventLog::Reader& reader() { return *reader_; }
  RowDecryptor& opener() { return opener_; }

  // Building: a head, the row's bytes at the end of batch().bytes, CloseRow.
  RowBatch& batch() { return batch_; }
  const RowBatch& batch() const { return batch_; }
  RowHead NextHead(RowKind kind);
  void CloseRow();
  // Takes what became of an event in its row. Fails with nothing written where that is too large.
  Result<void> AppendEvent(Event& event);
  std::size_t last_row_bytes() const { return batch_.row(batch_.size() - 1).size(); }

  // Makes the batch durable. Fails with kLedgerUnavailable, for good.
  Result<void> Commit();

  // At the start: what the log holds already.
  void SetHead(const LogHead& head);
  void BeginEpoch() { ++head_.epoch; }

 private:
  // The row taken apart, until the next look or commit; null: it cannot be read. A verb asks for
  // one row more than once.
  const RowView* View(std::uint64_t row);
  bool DropAnswersOfBatch();

  EventLog& log_;
  LedgerClock& clock_;
  const std::unique_ptr<EventLog::Reader> reader_;
  std::optional<RowEncryptor> sealer_;  // unset: no keys
  RowDecryptor opener_;
  LogHead head_;
  Digest chain_{};  // hash of the last row built
  std::uint64_t first_row_ = 1;
  RowBatch batch_;
  bool is_latched_ = false;
  std::uint64_t commits_ = 0;
  std::size_t committed_bytes_ = 0;
  // What was looked at last.
  std::string row_;
  RowView view_;
  std::uint64_t viewed_ = 0;  // its row; 0: that may change
};

}  // namespace recourse
