#include "proxy/report/build_report.h"

#include "filters/ledger/model/row_id.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// A clock that was set back writes younger rows with older times; so many rows before the period
// are read too.
constexpr std::uint64_t kRowsBefore = 10'000;

Result<EventPage> Page(Ledger& ledger, std::uint64_t after, std::size_t limit) {
  EventFilter filter;
  filter.after = after;
  filter.limit = limit;
  return ledger.List(filter);
}

// Ids of several streams have no order to search by.
bool IsOneOfMany(std::uint64_t id) { return UnpackRowId(id).stream != 0; }

// A row number after which the events of the period begin.
Result<std::uint64_t> Start(Ledger& ledger, std::int64_t since_ms) {
  std::uint64_t low = 0;
  std::uint64_t high = ledger.OwnStats().last_id;
  if (IsOneOfMany(high)) return 0;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    const auto page = Page(ledger, middle, 1);
    if (!page) return std::unexpected(page.error());
    if (page->events.empty() || page->events.front().wall_ms >= since_ms) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low > kRowsBefore ? low - kRowsBefore : 0;
}

}  // namespace

Result<Report> BuildReport(Ledger& ledger, const Policy& policy, ReportPeriod period) {
  std::optional<Error> unread;
  ReportBuilder builder(policy, period, [&](std::uint64_t operation) -> std::optional<Event> {
    const auto found = ledger.Find(operation);
    if (!found) unread = found.error();
    return found ? *found : std::nullopt;
  });
  // What a row is told of as would not be so without the other one.
  const auto finish = [&]() -> Result<Report> {
    if (unread) return std::unexpected(*unread);
    return builder.Finish();
  };
  const auto start = Start(ledger, period.since_ms);
  if (!start) return std::unexpected(start.error());
  const std::uint64_t last = ledger.OwnStats().last_id;  // what comes later is left for later
  std::uint64_t after = *start;
  for (bool more = true; more;) {
    const auto page = Page(ledger, after, limits::kAdminPageMax);
    if (!page) return std::unexpected(page.error());
    for (const Event& event : page->events) {
      if (event.id > last && !IsOneOfMany(last)) return finish();
      builder.Add(event);
      after = event.id;
    }
    more = page->more;
  }
  return finish();
}

}  // namespace recourse
