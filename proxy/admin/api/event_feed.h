// The rows of a ledger as they come, of all processes that share it: what GET /stream and
// GET /events?follow= tell. Thread-safe; blocks.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/news_place.h"
#include "filters/ledger/model/row_id.h"
#include "filters/ledger/shared_view.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/admin/views/pod_names.h"

namespace recourse {

class EventFeed {
 public:
  using News = SharedLedgerView::News;
  // `ledger` outlives it.
  explicit EventFeed(Ledger& ledger)
      : ledger_(ledger), shared_(dynamic_cast<SharedLedgerView*>(&ledger)), pods_(ledger) {}

  // Whether others write too, of which nobody says when.
  bool is_shared() const { return shared_ != nullptr; }
  PodNames& pods() { return pods_; }
  Result<NewsPlace> End();
  // Of `filter` only what is asked for counts, not from where and how much.
  Result<News> After(const NewsPlace& place, const EventFilter& filter);

 private:
  Ledger& ledger_;
  SharedLedgerView* const shared_;
  PodNames pods_;
};

// Shows `tell(place, json)` each row of the page that came after `from`, and where somebody goes on
// who was told of it last.
void EachNews(const NewsPlace& from, const EventFeed::News& news, PodNames& pods, auto tell) {
  NewsPlace place = from;
  std::string json;
  const auto told = [&](std::uint64_t id) {
    if (from.at_ms == 0) {
      place = NewsPlace::OfRow(id);
    } else {
      const RowId row = UnpackRowId(id);
      place.told[row.stream] = row.number;
    }
    tell(place, json);
    json.clear();
  };
  auto flow = news.page.flows.begin();
  const auto tell_flows = [&](std::uint64_t before) {
    for (; flow != news.page.flows.end() && flow->id < before; ++flow) {
      AppendFlowMoved(json, *flow, &pods);
      told(flow->id);
    }
  };
  for (const Event& event : news.page.events) {
    tell_flows(event.id);
    AppendEvent(json, event, &pods);
    told(event.id);
  }
  tell_flows(std::numeric_limits<std::uint64_t>::max());
}

}  // namespace recourse
