// Metrics of a ledger of many processes.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "filters/ledger/ledger.h"

namespace recourse {

// Of a ledger of one process nothing is ever counted.
void AddSharedLedger(Ledger& ledger, std::vector<prometheus::MetricFamily>& families);

}  // namespace recourse
