#include "filters/ledger/queries/operation_queries.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "filters/ledger/rows/row_codec.h"
#include "policy/model/principal.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/limits.h"
#include "proxy/base/watch_limits.h"

namespace recourse {
namespace {

// The first and the last row of a window.
struct Window {
  std::uint64_t first = 0, last = 0;
};

bool HasValue(const Event& event, const std::string& value) {
  return event.external_ref == value ||
         std::ranges::any_of(event.answer.headers, [&value](const Header& field) {
           return field.second == value && !IsCredentialField(field.first) &&
                  !IsPrincipalField(field.first);
         });
}

bool Matches(const OperationFilter& filter, const Event& event) {
  if (filter.phase && event.phase != *filter.phase) return false;
  if (filter.status && event.status() != *filter.status) return false;
  const bool is_observed = event.verdict != ObserveVerdict::kNone;
  if (filter.observed && is_observed != *filter.observed) return false;
  if (filter.tool && event.tool != *filter.tool) return false;
  if (filter.trace_id && event.trace_id != *filter.trace_id) return false;
  if (filter.caller && event.caller != *filter.caller) return false;
  return !filter.flow || event.flow == *filter.flow;
}

bool MayMatch(const OperationFilter& filter, Phase phase) {
  if (filter.phase && phase != *filter.phase) return false;
  return !filter.status || StatusOf(phase) == *filter.status;
}

// The newest event of each operation within one window.
class WindowReader {
 public:
  WindowReader(const OperationFilter& filter, const SharedKeys& keys)
      : filter_(filter), opener_(keys) {}

  // False: a row that cannot be read.
  bool Read(EventLog::Reader& reader, const Window& window) {
    latest_.clear();
    bad_row_ = 0;
    const bool read = reader.Scan(window.first, window.last - window.first + 1,
                                  [&](std::uint64_t seq, std::string_view bytes) {
                                    return seq <= window.last && Take(seq, bytes);
                                  });
    return read && bad_row_ == 0;
  }

  // Of the operations that match, ascending by row.
  std::vector<Event> TakeMatching() {
    std::vector<Event> events;
    for (auto& [operation, event] : latest_) {
      if (event && Matches(filter_, *event)) events.push_back(std::move(*event));
    }
    std::sort(events.begin(), events.end(),
              [](const Event& a, const Event& b) { return a.id < b.id; });
    return events;
  }

  std::uint64_t bad_row() const { return bad_row_; }
  std::size_t bytes() const { return bytes_; }  // of everything read so far

 private:
  bool Take(std::uint64_t seq, std::string_view bytes) {
    bytes_ += bytes.size();
    bad_row_ = seq;
    const auto row = ParseRow(bytes);
    if (!row) return false;
    if (row->head.kind == RowKind::kEvent) {
      EventFront front;
      if (!DecodeEventFront(*row, front)) return false;
      std::optional<Event>& latest = latest_[front.operation];
      latest.reset();
      if (MayMatch(filter_, front.phase)) {
        const AnswerPart part = filter_.value ? AnswerPart::kLoad : AnswerPart::kSkipBody;
        if (!DecodeEvent(*row, part, opener_, latest.emplace())) return false;
        if (filter_.value) KeepIfNamed(latest);
      }
    }
    bad_row_ = 0;
    return true;
  }

  // At once, so that no more than one answer is held.
  void KeepIfNamed(std::optional<Event>& event) const {
    if (!HasValue(*event, *filter_.value)) return event.reset();
    event->answer = {};
    event->request.reset();
  }

  const OperationFilter& filter_;
  RowDecryptor opener_;
  std::unordered_map<std::uint64_t, std::optional<Event>> latest_;  // unset: cannot match
  std::uint64_t bad_row_ = 0;
  std::size_t bytes_ = 0;
};

// Leaves those that are the newest of their operations.
Result<void> KeepNewest(std::vector<Event>& events, const NewestOf& newest) {
  if (events.empty()) return {};
  std::vector<OperationRow> rows;
  rows.reserve(events.size());
  for (const Event& event : events) rows.push_back({event.key, event.operation, event.id});
  const auto kept = newest(rows);
  if (!kept) return std::unexpected(kept.error());
  std::size_t at = 0;
  std::erase_if(events, [&](const Event&) { return !(*kept)[at++]; });
  return {};
}

// What is looked at next of what is left, `rows_max` at most.
Window NextWindow(const Window& left, std::size_t rows_max, bool is_up) {
  const std::uint64_t rows = std::min<std::uint64_t>(
      std::min(limits::kOperationsWindowRows, rows_max), left.last - left.first + 1);
  return is_up ? Window{left.first, left.first + rows - 1}
               : Window{left.last - rows + 1, left.last};
}

}  // namespace

bool IsAskedFor(const OperationFilter& filter, const Event& event) {
  if (filter.is_of && !filter.is_of(event.id)) return false;
  return Matches(filter, event) && (!filter.value || HasValue(event, *filter.value));
}

Result<OperationPage> ListOperations(EventLog& log, const SharedKeys& keys,
                                     const OperationFilter& filter, const NewestOf& newest) {
  const bool is_up = filter.after.has_value();
  const std::size_t limit = std::clamp(filter.limit, std::size_t{1}, limits::kOperationsPageMax);
  const std::uint64_t last = log.last_seq();
  Window left{log.base().first_seq, last};
  if (is_up) left.first = std::max(left.first, std::min(last, *filter.after) + 1);
  if (!is_up && filter.before)
    left.last = std::min(last, std::max<std::uint64_t>(*filter.before, 1) - 1);
  OperationPage page{.events = {}, .first = left.last + 1, .last = left.last};
  if (is_up) page = {.events = {}, .first = left.first, .last = left.first - 1};
  WindowReader window(filter, keys);
  const auto reader = log.NewReader();
  for (std::size_t rows = 0; left.first <= left.last && page.events.size() < limit;) {
    if (rows >= limits::kOperationsScanRows || window.bytes() >= limits::kOperationsScanBytes) {
      break;  // whoever asks goes on from here
    }
    const Window looked = NextWindow(left, limits::kOperationsScanRows - rows, is_up);
    if (!window.Read(*reader, looked)) return std::unexpected(Unreadable(window.bad_row()));
    std::vector<Event> found = window.TakeMatching();
    if (auto kept = KeepNewest(found, newest); !kept) return std::unexpected(kept.error());
    if (!is_up) std::reverse(found.begin(), found.end());
    const std::size_t room = limit - page.events.size();
    Window done = looked;
    if (found.size() > room) {
      found.resize(room);
      (is_up ? done.last : done.first) = found.back().id;
    }
    std::move(found.begin(), found.end(), std::back_inserter(page.events));
    rows += done.last - done.first + 1;
    if (is_up) {
      page.last = done.last;
      left.first = done.last + 1;
    } else {
      page.first = done.first;
      left.last = done.first - 1;
    }
  }
  if (is_up) std::reverse(page.events.begin(), page.events.end());
  page.older = page.first > log.base().first_seq;
  page.newer = page.last < last;
  return page;
}

}  // namespace recourse
