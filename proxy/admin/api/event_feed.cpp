#include "proxy/admin/api/event_feed.h"

#include <algorithm>
#include <utility>

#include "proxy/base/watch_limits.h"

namespace recourse {

Result<NewsPlace> EventFeed::End() {
  return shared_ != nullptr ? shared_->NewsEnd() : NewsPlace::OfRow(ledger_.OwnStats().last_id);
}

Result<EventFeed::News> EventFeed::After(const NewsPlace& place, const EventFilter& filter) {
  if (shared_ != nullptr) return shared_->NewsAfter(place, filter);
  const std::uint64_t last = ledger_.OwnStats().last_id;
  const std::uint64_t after = std::min(place.row(), last);
  News news{.page = {}, .to = NewsPlace::OfRow(last)};
  news.is_behind = place.at_ms != 0 || last - after > limits::kStreamBacklogRows;
  if (news.is_behind || after == last) return news;
  EventFilter asked = filter;
  asked.after = after;
  asked.up_to = last;
  asked.limit = limits::kStreamPageRows;
  auto page = ledger_.List(asked);
  if (!page) return std::unexpected(page.error());
  news.page = std::move(*page);
  news.more = news.page.more;
  if (news.more) news.to = NewsPlace::OfRow(news.page.last_id);
  return news;
}

}  // namespace recourse
