// What of the pages of several ledgers makes one page of all of them: in the order of time over
// pages too, and no more than was asked for. Pure.
#pragma once

#include <vector>

#include "proxy/base/http/http_message.h"
#include "proxy/console/merge.h"

namespace recourse {

// Takes out the rows that are for a later page, and lets each ledger go on before its first one of
// them: those past `limit`, and those past what a ledger that has more has told.
void CutPage(const ListForm& form, const Pairs& query, std::vector<LedgerAnswer>& answers);

}  // namespace recourse
