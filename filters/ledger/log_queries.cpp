#include "filters/ledger/log_queries.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "filters/ledger/record_codec.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

bool FrontMatches(const EventFilter& filter, const EventFront& front) {
  if (filter.operation && front.operation != *filter.operation) return false;
  if (filter.phase && front.phase != *filter.phase) return false;
  return !filter.status || StatusOf(front.phase) == *filter.status;
}

bool TextMatches(const EventFilter& filter, const Event& event) {
  if (filter.trace_id && event.trace_id != *filter.trace_id) return false;
  return !filter.tool || event.tool == *filter.tool;
}

// Collects the events of a page while rows go by.
class PageBuilder {
 public:
  PageBuilder(const EventFilter& filter, std::size_t limit) : filter_(filter), limit_(limit) {}

  // False: enough, or a row that cannot be read.
  bool Take(std::uint64_t seq, std::string_view bytes) {
    last_seq_ = seq;
    const auto row = ParseRow(bytes);
    is_damaged_ = !row;
    if (is_damaged_) return false;
    EventFront front;
    if (row->head.kind != RowKind::kEvent) return true;
    is_damaged_ = !DecodeEventFront(*row, front);
    if (is_damaged_) return false;
    if (!FrontMatches(filter_, front)) return true;
    Event event;
    is_damaged_ = !DecodeEvent(*row, AnswerPart::kSkipBody, event);
    if (is_damaged_) return false;
    if (!TextMatches(filter_, event)) return true;
    if (page_.events.size() == limit_) {
      page_.more = true;
      return false;
    }
    page_.events.push_back(std::move(event));
    return true;
  }

  bool is_done() const { return page_.more; }
  bool is_damaged() const { return is_damaged_; }
  std::uint64_t last_seq() const { return last_seq_; }
  EventPage TakePage() { return std::move(page_); }

 private:
  const EventFilter& filter_;
  const std::size_t limit_;
  EventPage page_;
  std::uint64_t last_seq_ = 0;
  bool is_damaged_ = false;
};

// Follows the hash chain while rows go by.
class ChainChecker {
 public:
  bool Take(std::uint64_t seq, std::string_view bytes) {
    const auto row = ParseRow(bytes);
    if (!row) {
      reason_ = row.error();
    } else if (seq != next_ || row->head.seq != seq) {
      reason_ = "row number is wrong";
    } else if (row->head.prev_hash != hash_) {
      reason_ = "hash chain is broken";
    } else {
      hash_ = RowHash(bytes);
      ++next_;
    }
    return reason_.empty();
  }

  std::uint64_t next() const { return next_; }
  const Digest& hash() const { return hash_; }
  std::string_view reason() const { return reason_; }
  void Fail(std::string_view reason) { reason_ = reason; }

 private:
  std::uint64_t next_ = 1;
  Digest hash_{};
  std::string_view reason_;
};

}  // namespace

Result<EventPage> ListEvents(EventLog& log, const EventFilter& filter) {
  PageBuilder builder(filter, std::clamp(filter.limit, std::size_t{1}, limits::kAdminPageMax));
  const std::uint64_t last = log.last_seq();
  if (filter.after >= last) return EventPage();
  const auto reader = log.NewReader();
  std::uint64_t next = filter.after + 1;
  // The rows of an operation begin with the operation's own id.
  if (filter.operation) next = std::max(next, *filter.operation);
  while (next <= last && !builder.is_done()) {
    const bool read = reader->Scan(
        next, limits::kScanChunkRows,
        [&](std::uint64_t seq, std::string_view bytes) { return builder.Take(seq, bytes); });
    if (!read || builder.is_damaged() || builder.last_seq() < next) {
      return std::unexpected(Unreadable());
    }
    next = builder.last_seq() + 1;
  }
  return builder.TakePage();
}

Result<std::optional<Event>> FindEvent(EventLog& log, std::uint64_t id) {
  std::string bytes;
  if (id == 0 || id > log.last_seq()) return std::nullopt;
  if (!log.NewReader()->Read(id, bytes)) return std::unexpected(Unreadable());
  const auto row = ParseRow(bytes);
  if (!row) return std::unexpected(Unreadable());
  if (row->head.kind != RowKind::kEvent) return std::nullopt;
  Event event;
  if (!DecodeEvent(*row, AnswerPart::kLoad, event)) return std::unexpected(Unreadable());
  return event;
}

VerifyReport VerifyLog(EventLog& log, std::uint64_t last_id, const Digest& head) {
  ChainChecker checker;
  const auto reader = log.NewReader();
  while (checker.next() <= last_id && checker.reason().empty()) {
    const std::uint64_t from = checker.next();
    const std::size_t rows = std::min<std::uint64_t>(limits::kScanChunkRows, last_id - from + 1);
    const bool read = reader->Scan(from, rows, [&](std::uint64_t seq, std::string_view bytes) {
      return checker.Take(seq, bytes);
    });
    if (!read || (checker.next() == from && checker.reason().empty())) {
      checker.Fail("row cannot be read");
    }
  }
  VerifyReport report;
  report.rows = checker.next() - 1;
  report.last_id = last_id;
  report.head = ToHex(checker.hash());
  if (!checker.reason().empty()) {
    report.problem = fmt::format("row {}: {}", checker.next(), checker.reason());
  } else if (checker.hash() != head) {
    report.problem = fmt::format("row {}: its hash is not the one this process wrote", last_id);
  }
  report.ok = report.problem.empty();
  return report;
}

}  // namespace recourse
