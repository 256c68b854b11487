#include "filters/ledger/queries/log_queries.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "filters/ledger/model/missing_key.h"
#include "filters/ledger/model/row_id.h"
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
  if (filter.flow && event.flow != *filter.flow) return false;
  return !filter.tool || event.tool == *filter.tool;
}

bool WantsFlows(const EventFilter& filter) {
  return filter.with_flows && !filter.tool && !filter.status && !filter.phase && !filter.operation;
}

// Collects the events of a page while rows go by.
class PageBuilder {
 public:
  PageBuilder(const EventFilter& filter, std::size_t limit, const SharedKeys& keys)
      : filter_(filter), limit_(limit), opener_(keys), wants_flows_(WantsFlows(filter)) {}

  // Whether the rows before the page have to go by too (Pass): flow rows name no trace.
  bool needs_all_rows() const { return wants_flows_ && filter_.trace_id; }

  // A row before the page. False: it cannot be read.
  bool Pass(std::uint64_t seq, std::string_view bytes) {
    last_seq_ = seq;
    if (seq > filter_.after) return false;  // rows that were removed leave gaps
    const auto row = ParseRow(bytes);
    is_damaged_ = !row;
    if (row) NoteFlow(*row);
    return !is_damaged_;
  }

  // False: enough, or a row that cannot be read.
  bool Take(std::uint64_t seq, std::string_view bytes) {
    last_seq_ = seq;
    if (seq > filter_.up_to) return false;  // rows that were removed leave gaps
    const auto row = ParseRow(bytes);
    is_damaged_ = !row;
    if (is_damaged_) return false;
    if (row->head.kind == RowKind::kFlow) return TakeFlow(*row);
    EventFront front;
    if (row->head.kind != RowKind::kEvent) return true;
    if (needs_all_rows()) NoteFlow(*row);
    is_damaged_ = !DecodeEventFront(*row, front);
    if (is_damaged_) return false;
    if (!FrontMatches(filter_, front)) return true;
    Event event;
    const AnswerPart answer = filter_.with_answers ? AnswerPart::kLoad : AnswerPart::kSkipBody;
    is_damaged_ = !DecodeEvent(*row, answer, opener_, event);
    if (is_damaged_) return false;
    if (!TextMatches(filter_, event)) return true;
    if (filter_.with_answers) bytes_ += bytes.size();
    if (!HasRoom()) return false;
    page_.events.push_back(std::move(event));
    page_.last_id = row->head.seq;
    return true;
  }

  bool is_done() const { return page_.more; }
  bool is_damaged() const { return is_damaged_; }
  std::uint64_t last_seq() const { return last_seq_; }
  EventPage TakePage() { return std::move(page_); }

 private:
  bool HasRoom() {
    const std::size_t rows = page_.events.size() + page_.flows.size();
    page_.more = rows == limit_ || (bytes_ > limits::kAdminPageBytesMax && rows > 0);
    return !page_.more;
  }

  // The flows that have something of the trace.
  void NoteFlow(const RowView& row) {
    if (row.head.kind != RowKind::kEvent) return;
    const auto news = NewsOf(row);
    if (!news || news->trace_id != *filter_.trace_id) return;
    flows_of_trace_.emplace(news->caller, news->flow);
  }

  bool TakeFlow(const RowView& row) {
    if (!wants_flows_) return true;
    FlowState state;
    is_damaged_ = !DecodeFlow(row, state);
    if (is_damaged_) return false;
    if (filter_.flow && state.id != *filter_.flow) return true;
    const bool is_of_trace = !filter_.trace_id || state.id == *filter_.trace_id ||
                             flows_of_trace_.contains({state.caller, state.id});
    if (!is_of_trace) return true;
    if (!HasRoom()) return false;
    page_.flows.push_back(MovedOf(row.head, std::move(state)));
    page_.flows.back().events_before = page_.events.size();
    page_.last_id = row.head.seq;
    return true;
  }

  const EventFilter& filter_;
  const std::size_t limit_;
  RowDecryptor opener_;
  const bool wants_flows_;
  std::set<std::pair<std::string, std::string>> flows_of_trace_;  // caller and flow id
  EventPage page_;
  std::size_t bytes_ = 0;  // of rows with answers
  std::uint64_t last_seq_ = 0;
  bool is_damaged_ = false;
};

// Follows the hash chain while rows go by, and opens every seal that it has the key of.
class RowChecker {
 public:
  // Without `opens_seals` the chain alone is followed, for which no key is needed.
  RowChecker(const SharedKeys& keys, const LogBase& base, bool opens_seals)
      : opens_seals_(opens_seals), opener_(keys) {
    StartAt(base);
  }

  void StartAt(const LogBase& base) {
    base_ = base;
    next_ = base.first_seq;
    hash_ = base.prev_hash;
    check_ = {};
    reason_ = {};
    locked_row_ = locked_rows_ = 0;
    missing_.clear();
  }

  bool Take(std::uint64_t seq, std::string_view bytes) {
    const auto row = ParseRow(bytes);
    if (!row) return Fail("format", row.error());
    if (seq != next_ || row->head.seq != seq) return Fail("number", "row number is wrong");
    if (row->head.prev_hash != hash_) return Fail("chain", "hash chain is broken");
    if (!TakePayload(*row)) return false;
    hash_ = RowHash(bytes);
    ++next_;
    return true;
  }

  bool Fail(std::string_view check, std::string_view reason) {
    check_ = check;
    reason_ = reason;
    return false;
  }

  const LogBase& base() const { return base_; }
  std::uint64_t next() const { return next_; }
  const Digest& hash() const { return hash_; }
  bool has_failed() const { return !check_.empty(); }
  std::string_view check() const { return check_; }
  const std::string& reason() const { return reason_; }
  // The first row whose key is missing; 0: there is none.
  std::uint64_t locked_row() const { return locked_row_; }
  // For people.
  std::string WhatIsMissing() const {
    const bool is_one = missing_.size() == 1;
    return fmt::format(
        "what is sealed with {} {} in {} {} was not checked, as {} not among the ledger's keys; "
        "the chain and all checksums are right",
        is_one ? "key" : "keys", fmt::join(missing_, ", "), locked_rows_,
        locked_rows_ == 1 ? "row" : "rows", is_one ? "it is" : "they are");
  }

 private:
  bool TakePayload(const RowView& row) {
    if (row.head.kind != RowKind::kEvent || !opens_seals_) return true;
    const auto decoded = DecodeEvent(row, AnswerPart::kLoad, opener_, event_);
    if (decoded && event_.is_locked) NoteLocked(row);
    if (decoded) return true;
    return decoded.error() == PayloadFault::kSeal
               ? Fail("seal", "what is sealed in it was changed, or comes from another row")
               : Fail("payload", "payload cannot be read");
  }

  // Everything else of it is checked, and so are the rows behind it.
  void NoteLocked(const RowView& row) {
    if (locked_row_ == 0) locked_row_ = row.head.seq;
    ++locked_rows_;
    const auto key = SealedWith(row);
    if (key && missing_.size() < limits::kLedgerKeysMax) missing_.insert(ToText(*key));
  }

  const bool opens_seals_;
  RowDecryptor opener_;
  Event event_;  // reused
  LogBase base_;
  std::uint64_t next_ = 1;
  Digest hash_{};
  std::string_view check_;
  std::string reason_;
  std::uint64_t locked_row_ = 0, locked_rows_ = 0;
  std::set<std::string> missing_;  // keys
};

VerifyReport Check(EventLog& log, RowChecker& checker, std::uint64_t last_id, const Digest* head) {
  const auto reader = log.NewReader();
  while (checker.next() <= last_id && !checker.has_failed()) {
    const std::uint64_t from = checker.next();
    const std::size_t rows = std::min<std::uint64_t>(limits::kScanChunkRows, last_id - from + 1);
    const bool read = reader->Scan(from, rows, [&](std::uint64_t seq, std::string_view bytes) {
      return checker.Take(seq, bytes);
    });
    if (!checker.has_failed() && (!read || checker.next() == from)) {
      checker.Fail("format", "row cannot be read");
    }
    // Retention may have removed what was to be read next.
    if (const LogBase base = log.base(); base.first_seq > checker.next()) checker.StartAt(base);
  }
  VerifyReport report;
  report.first_id = checker.base().first_seq;
  if (UnpackRowId(report.first_id).number > 1) report.base = ToHex(checker.base().prev_hash);
  report.rows = checker.next() - report.first_id;
  report.last_id = last_id;
  report.head = ToHex(checker.hash());
  report.bad_row = checker.next();
  // Nothing can be said of it when everything that was to be read has gone meanwhile.
  const bool has_head = report.first_id <= last_id + 1;
  if (!checker.has_failed() && has_head && head != nullptr && checker.hash() != *head) {
    report.bad_row = last_id;
    checker.Fail("head", "its hash is not the one this process wrote");
  }
  // Of all that was found it says the least.
  if (!checker.has_failed() && checker.locked_row() != 0) {
    report.bad_row = checker.locked_row();
    checker.Fail(kMissingKeyCheck, checker.WhatIsMissing());
  }
  report.ok = !checker.has_failed();
  if (const auto away = log.away()) {
    report = VerifyReport();
    report.is_away = true;
    report.problem = away->detail();
  } else if (report.ok) {
    report.bad_row = 0;
  } else {
    report.check = checker.check();
    report.problem = fmt::format("row {}: {}", PrintRowId(report.bad_row), checker.reason());
  }
  return report;
}

}  // namespace

FlowMoved MovedOf(const RowHead& head, FlowState state) {
  FlowMoved moved{.id = head.seq,
                  .wall_ms = head.wall_ms,
                  .number = state.number,
                  .flow = std::move(state.id),
                  .caller = std::move(state.caller),
                  .flow_name = std::move(state.name),
                  .policy_version = std::move(state.policy_version),
                  .phase = state.phase,
                  .cause = state.cause,
                  .reason = std::move(state.reason),
                  .steps = state.steps.size()};
  moved.undone = static_cast<std::size_t>(
      std::count_if(state.steps.begin(), state.steps.end(),
                    [](const FlowStep& step) { return step.phase == Phase::kCompensated; }));
  return moved;
}

namespace {

// Shows `take` the rows from `next` to `last`, in short transactions, until it is done.
template <class Take>
Result<void> Walk(EventLog& log, PageBuilder& builder, std::uint64_t next, std::uint64_t last,
                  Take take) {
  const auto reader = log.NewReader();
  while (next <= last && !builder.is_done()) {
    const bool read =
        reader->Scan(next, std::min<std::uint64_t>(limits::kScanChunkRows, last - next + 1), take);
    if (!read || builder.is_damaged() || builder.last_seq() < next) {
      return std::unexpected(WhyUnread(log, builder.last_seq()));
    }
    next = builder.last_seq() + 1;
  }
  return {};
}

}  // namespace

Result<EventPage> ListEvents(EventLog& log, const SharedKeys& keys, const EventFilter& asked) {
  EventFilter filter = asked;
  filter.after = log.PlaceOf(asked.after);
  filter.up_to = log.PlaceOf(asked.up_to);
  EventLog::Placed older;
  if (filter.back > 0) {
    older = log.Before(filter.up_to, filter.back);
    if (older.place <= filter.after) older = {};
    filter.after = std::max(filter.after, older.place);
  }
  PageBuilder builder(filter, std::clamp(filter.limit, std::size_t{1}, limits::kAdminPageMax),
                      keys);
  const std::uint64_t last = std::min(log.last_seq(), filter.up_to);
  if (filter.after >= last) return EventPage();
  if (builder.needs_all_rows() && filter.after > 0) {
    const auto passed =
        Walk(log, builder, log.base().first_seq, filter.after,
             [&](std::uint64_t seq, std::string_view bytes) { return builder.Pass(seq, bytes); });
    if (!passed) return std::unexpected(passed.error());
  }
  std::uint64_t next = filter.after + 1;
  // The rows of an operation begin with the operation's own id.
  if (filter.operation) next = std::max(next, log.PlaceOf(*filter.operation));
  const auto taken = Walk(log, builder, next, last, [&](std::uint64_t seq, std::string_view bytes) {
    return builder.Take(seq, bytes);
  });
  if (!taken) return std::unexpected(taken.error());
  EventPage page = builder.TakePage();
  page.older = older.id;
  return page;
}

// The first row of the operation is gone, but the operation may be kept: its last event.
Result<std::optional<Event>> FindOperation(EventLog& log, const SharedKeys& keys,
                                           std::uint64_t operation) {
  EventFilter filter;
  filter.operation = operation;
  filter.limit = limits::kAdminPageMax;
  std::uint64_t last = 0;
  for (bool more = true; more;) {
    auto page = ListEvents(log, keys, filter);
    if (!page) return std::unexpected(page.error());
    if (!page->events.empty()) last = filter.after = page->events.back().id;
    more = page->more;
  }
  if (last == 0) return std::nullopt;
  return FindEvent(log, keys, last);
}

Result<std::optional<Event>> FindEvent(EventLog& log, const SharedKeys& keys, std::uint64_t id) {
  std::string bytes;
  if (id == 0 || id > log.last_seq()) return std::nullopt;
  const bool is_there = log.NewReader()->Read(id, bytes);
  if (id < log.base().first_seq) return FindOperation(log, keys, id);
  if (!is_there) return std::unexpected(WhyUnread(log, id));
  const auto row = ParseRow(bytes);
  if (!row) return std::unexpected(Unreadable(id));
  if (row->head.kind != RowKind::kEvent) return std::nullopt;
  Event event;
  RowDecryptor opener(keys);
  if (!DecodeEvent(*row, AnswerPart::kLoad, opener, event)) return std::unexpected(Unreadable(id));
  return event;
}

VerifyReport VerifyLog(EventLog& log, const SharedKeys& keys, std::uint64_t last_id,
                       const Digest& head) {
  RowChecker checker(keys, log.base(), true);
  return Check(log, checker, last_id, &head);
}

VerifyReport VerifyChain(EventLog& log, std::uint64_t last_id, const Digest& head) {
  RowChecker checker(nullptr, log.base(), false);
  return Check(log, checker, last_id, &head);
}

VerifyReport VerifyChain(EventLog& log) {
  RowChecker checker(nullptr, log.base(), false);
  return Check(log, checker, log.last_seq(), nullptr);
}

}  // namespace recourse
