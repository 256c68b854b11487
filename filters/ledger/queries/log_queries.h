// What operators ask of the log: pages of events, one event, and the check of the whole hash chain.
// All of it reads committed rows in short transactions, beside the writer.
#pragma once

#include <memory>
#include <optional>

#include "filters/ledger/ledger.h"
#include "filters/ledger/rows/event_log.h"
#include "filters/ledger/rows/row_codec.h"
#include "filters/ledger/seal/key_ring.h"

namespace recourse {

using SharedKeys = std::shared_ptr<const LedgerKeys>;  // may be null: nothing sealed opens

Result<EventPage> ListEvents(EventLog& log, const SharedKeys& keys, const EventFilter& filter);
Result<std::optional<Event>> FindEvent(EventLog& log, const SharedKeys& keys, std::uint64_t id);

// What a row of a flow tells.
FlowMoved MovedOf(const RowHead& head, FlowState state);

// Reads the rows up to `last_id`, opens what is sealed and compares the last hash with `head`.
// Where keys are missing the rest is checked all the same.
VerifyReport VerifyLog(EventLog& log, const SharedKeys& keys, std::uint64_t last_id,
                       const Digest& head);

// The same without a key, and without a head to compare with: opens no seal.
VerifyReport VerifyChain(EventLog& log, std::uint64_t last_id, const Digest& head);
VerifyReport VerifyChain(EventLog& log);

}  // namespace recourse
