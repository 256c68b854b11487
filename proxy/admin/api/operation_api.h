// The admin API's part about single operations.
#pragma once

#include <functional>
#include <string_view>

#include "filters/ledger/ledger.h"
#include "filters/saga/flow_operator.h"
#include "proxy/admin/access/access_control.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// POST /operations/{operation}/settle. Whoever calls it has checked what the operator may do.
// Blocking, on the admin thread.
class OperationApi {
 public:
  struct Parts {
    Ledger& ledger;
    FlowOperator& flows;
    std::function<bool()> is_observing;
  };
  explicit OperationApi(Parts parts) : parts_(std::move(parts)) {}

  // The endpoint is that which settles.
  HttpResponse Handle(const AccessControl::Visit& visit, const HttpRequest& request);

 private:
  const Parts parts_;
};

}  // namespace recourse
