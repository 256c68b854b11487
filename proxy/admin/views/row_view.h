// Rows of the ledger as lines of JSON, each with the bytes that the hash chain is made of.
#pragma once

#include <string>
#include <vector>

#include "filters/ledger/queries/audit.h"
#include "proxy/base/json/json_shape.h"

namespace recourse {

// A ChainRow of openapi.json.
void AppendRowLine(std::string& out, const LoggedRow& row);
std::vector<JsonShape> RowShapes();

}  // namespace recourse
