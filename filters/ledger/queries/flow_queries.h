// What operators ask of flows that are over: read back from the rows, beside the writer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "filters/ledger/model/flow.h"
#include "filters/ledger/rows/event_log.h"
#include "proxy/base/error.h"

namespace recourse {

// As Ledger::FindFlow and Ledger::NewestFlows; `now_ms` says which flows have been idle for long.
Result<std::optional<FlowState>> FindFlow(EventLog& log, std::uint64_t number, std::int64_t now_ms);
Result<std::vector<FlowState>> NewestFlows(EventLog& log, std::size_t limit, std::int64_t now_ms);

}  // namespace recourse
