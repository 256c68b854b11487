// GET /events: the rows of the log that are events or moves of flows, page by page, or as they
// come. The caller has checked who asks. Blocking, on the admin thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/ledger.h"
#include "proxy/admin/api/event_feed.h"
#include "proxy/admin/views/pod_names.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json_shape.h"

namespace recourse {

class EventsApi {
 public:
  // `ledger` outlives it.
  explicit EventsApi(Ledger& ledger) : ledger_(ledger), pods_(ledger), feed_(ledger) {}

  // `query` is that of the target, without '?'.
  HttpResponse List(std::string_view query);

 private:
  using IsOf = std::function<bool(std::uint64_t row)>;  // of a pod; empty: of all
  HttpResponse Follow(const std::string& from, const EventFilter& filter, const IsOf& is_of);

  Ledger& ledger_;
  PodNames pods_;
  EventFeed feed_;
};

// Of what GET /events answers.
std::vector<JsonShape> EventPageShapes();

}  // namespace recourse
