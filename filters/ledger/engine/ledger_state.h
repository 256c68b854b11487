// What the ledger knows, without what it does with it.
#pragma once

#include <cstdint>
#include <utility>

#include "filters/ledger/engine/ledger_clock.h"
#include "filters/ledger/engine/ledger_log.h"
#include "filters/ledger/engine/ledger_parts.h"
#include "filters/ledger/engine/open_claims.h"
#include "filters/ledger/engine/open_operations.h"
#include "filters/ledger/engine/operation_index.h"
#include "filters/ledger/engine/restored_backup.h"
#include "filters/ledger/engine/space_account.h"
#include "filters/ledger/model/open_flows.h"
#include "filters/ledger/rules/quotas.h"
#include "proxy/base/limits.h"

namespace recourse {

// One thread at a time, but for restored.
struct LedgerState {
  LedgerState(LedgerParts stands_on, const Clock& steady)
      : parts(std::move(stands_on)),
        clock(steady, parts.log->LoadAges(), parts.log->last_seq()),
        log(*parts.log, parts.keys, clock),
        index(parts, log, open),
        space(*parts.log, steady),
        restored(parts.accept_restored) {
    space.Look(Promised());
  }

  // What waits may be decided, sent, and stay unknown: each row repeats its request.
  std::uint64_t Promised() const {
    return open.size() * std::uint64_t{limits::kOpenReserveBytes} +
           claims.size() * std::uint64_t{limits::kOpenReserveBytes} + 3 * claims.bytes() +
           flows.undoable() * std::uint64_t{limits::kUndoReserveBytes};
  }
  // Whether so many bytes more fit beside everything that is promised to fit.
  bool HasSpace(std::size_t bytes) {
    return space.Has(log.batch().bytes.size() + bytes, Promised());
  }

  LedgerParts parts;
  LedgerClock clock;
  LedgerLog log;
  OpenOperations open;
  OperationIndex index;
  OpenClaims claims;
  OpenFlows flows;
  QuotaUsage callers;
  SpaceAccount space;
  RestoredBackup restored;
  std::uint64_t accepted_row = 0;  // of the newest kAcceptOrder
  std::uint64_t policy_row = 0;    // of the policy in force; 0: none was told yet
  bool is_full = false;            // nothing more may begin
};

}  // namespace recourse
