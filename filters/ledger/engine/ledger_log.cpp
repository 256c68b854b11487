#include "filters/ledger/engine/ledger_log.h"

#include <utility>

#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

void LeaveRequestOut(Event& event) {
  event.request.reset();
  event.request_left_out = true;
}

}  // namespace

LedgerLog::LedgerLog(EventLog& log, std::shared_ptr<const LedgerKeys> keys, LedgerClock& clock)
    : log_(log), clock_(clock), reader_(log.NewReader()), opener_(keys) {
  const LogBase base = log.base();
  first_row_ = base.first_seq;
  head_ = {first_row_ - 1, 0, base.prev_hash};
  chain_ = head_.hash;
  batch_.first_seq = first_row_;
  if (keys != nullptr) sealer_.emplace(std::move(keys));
}

bool LedgerLog::Read(std::uint64_t row, std::string& bytes) {
  if (IsCommitted(row)) return reader_->Read(row, bytes);
  const std::uint64_t at = row - batch_.first_seq;
  if (at >= batch_.size()) return false;
  bytes = batch_.row(at);
  return true;
}

const RowView* LedgerLog::View(std::uint64_t row) {
  if (viewed_ == row && row != 0) return &view_;
  viewed_ = 0;
  if (!Read(row, row_)) return nullptr;
  const auto parsed = ParseRow(row_);
  if (!parsed) return nullptr;
  view_ = *parsed;
  if (IsCommitted(row)) viewed_ = row;
  return &view_;
}

Result<Event> LedgerLog::Load(std::uint64_t row) {
  Result<Event> event;
  const RowView* const view = IsCommitted(row) ? View(row) : nullptr;
  if (view == nullptr || view->head.seq != row ||
      !DecodeEvent(*view, AnswerPart::kLoad, opener_, *event)) {
    event = std::unexpected(Unreadable(row));
  }
  return event;
}

Result<Event> LedgerLog::ReadEvent(std::uint64_t row, AnswerPart part) {
  Result<Event> event;
  const RowView* const view = View(row);
  if (view == nullptr || !DecodeEvent(*view, part, opener_, *event)) {
    event = std::unexpected(Unreadable(row));
  }
  return event;
}

Result<Event> LedgerLog::ReadWhole(std::uint64_t row) {
  auto event = ReadEvent(row, AnswerPart::kLoad);
  if (event && event->is_locked) {
    return std::unexpected(
        Error(ErrorCode::kLedgerUnavailable,
              "the operation is sealed with a key that is not among the ledger's keys",
              Delivery::kNotSent));
  }
  return event;
}

Result<EventFront> LedgerLog::ReadFront(std::uint64_t row) {
  EventFront front;
  const RowView* const view = View(row);
  if (view == nullptr || !DecodeEventFront(*view, front)) return std::unexpected(Unreadable(row));
  front.flow_name = {};
  return front;
}

RowHead LedgerLog::NextHead(RowKind kind) {
  const std::uint64_t row = next_row();
  return {kind, row, head_.epoch, clock_.NoteRow(row), chain_};
}

void LedgerLog::CloseRow() {
  batch_.ends.push_back(batch_.bytes.size());
  chain_ = RowHash(batch_.row(batch_.size() - 1));
}

Result<void> LedgerLog::AppendEvent(Event& event) {
  const RowHead head = NextHead(RowKind::kEvent);
  event.id = head.seq;
  event.epoch = head.epoch;
  event.wall_ms = head.wall_ms;
  if (event.operation == 0) event.operation = event.id;
  if (event.detail.size() > limits::kDetailBytesMax) event.detail.resize(limits::kDetailBytesMax);
  if (event.request && !CanBeKept(*event.request)) LeaveRequestOut(event);
  const std::size_t start = batch_.bytes.size();
  AppendEventRow(batch_.bytes, event, chain_, sealer_ ? &*sealer_ : nullptr);
  if (batch_.bytes.size() - start > limits::kEventBytesMax) {
    batch_.bytes.resize(start);
    return std::unexpected(
        Error(ErrorCode::kInternal, "the event is too large to be kept", Delivery::kNotSent));
  }
  CloseRow();
  if (event.phase == Phase::kDispatching) {
    batch_.has_dispatching = true;
  } else {
    batch_.has_outcome = true;
  }
  return {};
}

Result<void> LedgerLog::Commit() {
  viewed_ = 0;  // retention may take it away
  auto done = log_.Append(batch_);
  if (!done && done.error().is_full && DropAnswersOfBatch()) done = log_.Append(batch_);
  if (!done) {
    is_latched_ = true;
    Log(LogLevel::kError, "the ledger cannot be written; writes are refused until a restart",
        {{"reason", done.error().reason}});
    return std::unexpected(Error(ErrorCode::kLedgerUnavailable, "the commit failed"));
  }
  ++commits_;
  head_.seq += batch_.size();
  head_.hash = chain_;
  committed_bytes_ = batch_.bytes.size();
  if (batch_.base) first_row_ = batch_.base->first_seq;
  batch_.Clear();
  batch_.first_seq = head_.seq + 1;
  return {};
}

void LedgerLog::SetHead(const LogHead& head) {
  head_ = head;
  chain_ = head.hash;
  batch_.first_seq = head.seq + 1;
}

// The last resort when free pages are too scattered for a large row: outcomes stay, their answers
// are not kept, nor the requests of those that are unknown. False: there was none.
bool LedgerLog::DropAnswersOfBatch() {
  RowBatch slim;
  slim.first_seq = batch_.first_seq;
  slim.has_dispatching = batch_.has_dispatching;
  slim.has_outcome = batch_.has_outcome;
  slim.base = batch_.base;
  slim.ages = batch_.ages;
  Digest link = head_.hash;
  bool dropped = false;
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    const auto row = ParseRow(batch_.row(i));
    Event event;
    const bool is_read = row && DecodeEvent(*row, AnswerPart::kOnlyRequest, opener_, event);
    const bool has_request = event.phase == Phase::kUncertain && event.request;
    if (is_read && (event.answer_kept || has_request)) {
      dropped = true;
      event.answer_kept = false;
      if (has_request) {
        event.request.reset();
        event.request_left_out = true;
      }
      AppendEventRow(slim.bytes, event, link, sealer_ ? &*sealer_ : nullptr);
    } else {
      AppendRelinkedRow(slim.bytes, batch_.row(i), link);
    }
    slim.ends.push_back(slim.bytes.size());
    link = RowHash(slim.row(i));
  }
  if (!dropped) return false;
  batch_ = std::move(slim);
  chain_ = link;
  return true;
}

}  // namespace recourse
