// Reads the ledger for a report.
#pragma once

#include "filters/ledger/ledger.h"
#include "proxy/report/report.h"

namespace recourse {

// Blocking: call from an admin thread. Reads the period's rows page by page, beside the writer.
// Fails with kLedgerUnavailable when rows cannot be read.
Result<Report> BuildReport(Ledger& ledger, const Policy& policy, ReportPeriod period);

}  // namespace recourse
