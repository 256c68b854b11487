// The admin API's part about single operations.
#pragma once

#include <functional>
#include <string_view>

#include "filters/ledger/ledger.h"
#include "filters/saga/flow_operator.h"
#include "proxy/admin/access/operator.h"
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

  // `path` begins with "/operations/".
  HttpResponse Handle(const HttpRequest& request, std::string_view path, const Operator& who);

 private:
  const Parts parts_;
};

}  // namespace recourse
