// Rows of the ledger as lines of JSON, each with the bytes that the hash chain is made of.
#pragma once

#include <string>

#include "filters/ledger/queries/audit.h"

namespace recourse {

// {"number", "kind", "time", "epoch", "prev", "hash", "row"} and, of an event, a flow's move, a
// policy and an order, a member of that name; `row` is base64, `hash` its SHA-256, `prev` that of
// the row before.
void AppendRowLine(std::string& out, const LoggedRow& row);

}  // namespace recourse
