// Calls that ask for a try: whether such a call did what it says is not known. Pure.
#pragma once

#include "filters/call/call_values.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// By a field, a parameter or a member of the body: `dry_run=true`, `X-Dry-Run: 1`,
// `Prefer: dry-run`, `{"validateOnly": true}`.
bool MayBeDryRun(const Headers& headers, const Pairs& query, const CallBody& body);

}  // namespace recourse
