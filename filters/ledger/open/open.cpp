#include "filters/ledger/open/open.h"

#include <utility>

#include "filters/ledger/engine/group_commit_ledger.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/lmdb/open.h"
#include "filters/ledger/memory/memory_event_log.h"

namespace recourse {
namespace {

using Opened = std::expected<std::unique_ptr<Ledger>, std::string>;
using Parts = std::expected<LedgerParts, std::string>;

Parts MemoryParts(std::uint32_t stream, const LmdbLedgerOptions& options) {
  LedgerParts parts{
      .resources = nullptr, .log = std::make_unique<MemoryEventLog>(stream), .cold = nullptr};
  if (!options.secrets) return parts;
  auto secrets = options.secrets(LedgerFacts());
  if (!secrets) return std::unexpected(std::move(secrets.error()));
  parts.keys = std::move(secrets->keys);
  return parts;
}

Opened Run(Parts parts, const OpenOptions& options, const Clock& clock) {
  if (!parts) return std::unexpected(std::move(parts.error()));
  if (options.log) parts->log = options.log(std::move(parts->log));
  auto engine = StartEngine(std::move(*parts), clock);
  if (!engine) return std::unexpected(std::move(engine.error()));
  return std::make_unique<GroupCommitLedger>(std::move(*engine), clock);
}

}  // namespace

Opened OpenLedger(const LedgerUrl& url, OpenOptions options, const Clock& clock) {
  switch (url.store) {
    case LedgerUrl::Store::kMemory:
      return Run(MemoryParts(url.stream, options.embedded), options, clock);
    case LedgerUrl::Store::kPostgres:
      return std::unexpected(
          "this version cannot open a ledger in PostgreSQL yet; leave it out, and the ledger is in "
          "--data");
    case LedgerUrl::Store::kLmdb:
      break;
  }
  options.embedded.directory = url.place;
  if (!options.log) return OpenLmdbLedger(options.embedded, clock);
  return Run(OpenLmdbParts(options.embedded), options, clock);
}

}  // namespace recourse
