// What the process counts for the report that the ledger does not hold.
#pragma once

#include <memory>
#include <vector>

#include "filters/observe/observer.h"
#include "proxy/admin/api/admin_api.h"
#include "proxy/exchange/services.h"

namespace recourse {

// Their number never changes any more. Any thread.
AdminApi::Counts CountsOf(const std::vector<std::unique_ptr<Worker>>& workers,
                          const Metrics& metrics, const Observer& observer);

}  // namespace recourse
