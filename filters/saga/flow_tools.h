// What those who work on a broken flow share.
#pragma once

#include "filters/saga/backend_share.h"
#include "filters/saga/flow_parts.h"
#include "filters/saga/flow_records.h"
#include "filters/saga/flow_table.h"

namespace recourse {

struct FlowTools {
  const FlowParts& parts;
  FlowTable& table;
  FlowRecords& records;
  BackendShare& share;
};

}  // namespace recourse
