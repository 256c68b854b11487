// What somebody who watches asks the admin API for.
#pragma once

#include <string_view>

#include "filters/ledger/queries/operation_queries.h"
#include "proxy/admin/api/event_stream.h"
#include "proxy/admin/views/pod_names.h"
#include "proxy/base/http/http_message.h"
#include "proxy/net/beast/http_server.h"

namespace recourse {

// GET /operations: operations as they are now, newest first, a page at a time. GET /stream: events
// as they are appended (event_stream.h). The caller has checked who asks. Blocking, on the admin
// thread.
class ActivityApi {
 public:
  // Both outlive it.
  ActivityApi(Ledger& ledger, EventStream& stream)
      : lister_(dynamic_cast<OperationLister*>(&ledger)), stream_(stream), pods_(ledger) {}

  // `query` is that of the target, without '?'.
  HttpResponse Operations(std::string_view query);
  ServedAnswer Stream(const HttpRequest& request, std::string_view query);

 private:
  OperationLister* const lister_;  // null: the ledger could not be opened
  EventStream& stream_;
  PodNames pods_;
};

// Of what GET /operations answers.
JsonShape OperationPageShape();

}  // namespace recourse
