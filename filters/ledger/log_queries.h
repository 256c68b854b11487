// What operators ask of the log: pages of events, one event, and the check of the whole hash chain.
// All of it reads committed rows in short transactions, beside the writer.
#pragma once

#include <optional>

#include "filters/ledger/event_log.h"
#include "filters/ledger/ledger.h"

namespace recourse {

Result<EventPage> ListEvents(EventLog& log, const EventFilter& filter);
Result<std::optional<Event>> FindEvent(EventLog& log, std::uint64_t id);

// Reads rows 1 to `last_id` and compares the last hash with `head`.
VerifyReport VerifyLog(EventLog& log, std::uint64_t last_id, const Digest& head);

}  // namespace recourse
