#include "filters/ledger/open/open.h"

#include <utility>

#include "filters/ledger/commit/group_commit_ledger.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/lmdb/open.h"
#include "filters/ledger/memory/memory_event_log.h"
#include "filters/ledger/open/stream_file.h"
#include "filters/ledger/postgres/open.h"
#include "filters/ledger/postgres/upkeep/keeper_thread.h"

namespace recourse {
namespace {

using Opened = std::expected<std::unique_ptr<Ledger>, Unopened>;
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
  if (!parts) return std::unexpected(Unopened{std::move(parts.error())});
  if (options.log) parts->log = options.log(std::move(parts->log));
  auto engine = StartEngine(std::move(*parts), clock);
  if (!engine) return std::unexpected(Unopened{std::move(engine.error())});
  return std::make_unique<GroupCommitLedger>(std::move(*engine), clock);
}

Opened OpenShared(const LedgerUrl& url, const OpenOptions& options, const Clock& clock) {
  PgLedgerOptions shared{
      .store = {.connection = {.url = url.place, .password_file = options.place.password_file},
                .group = options.place.group,
                .pod = options.pod,
                .version = RECOURSE_VERSION,
                .install_id = {}},
      .wait = options.place.wait};
  if (auto file = StreamFile::Hold(options.embedded.directory, options.embedded.unsafe_fs)) {
    shared.store.begun = [file](const Digest& ledger, std::uint64_t stream) {
      return file->Begin(ledger, stream);
    };
  }
  if (options.embedded.secrets) {
    auto secrets = options.embedded.secrets(LedgerFacts());
    if (!secrets) return std::unexpected(Unopened{std::move(secrets.error())});
    shared.keys = std::move(secrets->keys);
    shared.store.install_id = std::move(secrets->install_id);
  }
  shared.keeper = std::make_shared<PgKeeperThread>(
      PgKeeper::Of{shared.store.connection, shared.store.group, shared.keys, clock, &clock});
  shared.observes = options.observes;
  return OpenPostgresLedger(std::move(shared), clock);
}

}  // namespace

Opened OpenLedger(const LedgerUrl& url, OpenOptions options, const Clock& clock) {
  switch (url.store) {
    case LedgerUrl::Store::kMemory:
      return Run(MemoryParts(url.stream, options.embedded), options, clock);
    case LedgerUrl::Store::kPostgres:
      return OpenShared(url, options, clock);
    case LedgerUrl::Store::kLmdb:
      break;
  }
  options.embedded.directory = url.place;
  if (!options.log) {
    auto opened = OpenLmdbLedger(options.embedded, clock);
    if (!opened) return std::unexpected(Unopened{std::move(opened.error())});
    return std::move(*opened);
  }
  return Run(OpenLmdbParts(options.embedded), options, clock);
}

}  // namespace recourse
