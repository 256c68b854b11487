#include "filters/ledger/lmdb/open.h"

#include <fmt/format.h>

#include <utility>

#include "filters/ledger/group_commit_ledger.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/lmdb/ledger_directory.h"
#include "filters/ledger/lmdb/lmdb_cold_index.h"
#include "filters/ledger/lmdb/lmdb_event_log.h"
#include "filters/ledger/recovery.h"
#include "proxy/base/log.h"

namespace recourse {
namespace {

constexpr char kDataFile[] = "data.mdb";
constexpr char kIndexDirectory[] = "index";
// Two meta pages; a shorter file was cut.
constexpr std::uint64_t kDataBytesMin = 2 * 4096;

std::string Line(const std::string& directory, std::string_view reason) {
  return fmt::format("the ledger in {} cannot be used: {}", directory, reason);
}

// LMDB maps the file and trusts it: a page beyond its end ends the process, so the size is compared
// with the meta page before any other page is touched.
std::expected<std::unique_ptr<LmdbEnv>, std::string> OpenData(LedgerDirectory& directory,
                                                              const LmdbLedgerOptions& options) {
  const std::uint64_t bytes = directory.FileBytes(kDataFile);
  if (bytes == 0 && directory.is_sealed()) {
    return std::unexpected(
        "data.mdb is missing or empty though a ledger was created here; restore it from a backup, "
        "or name an empty directory to start without any memory of earlier calls");
  }
  if (bytes != 0 && bytes < kDataBytesMin) {
    if (directory.is_sealed()) {
      return std::unexpected("data.mdb is cut off; restore it from a backup");
    }
    // The very first start was killed while it created the file; nothing was ever remembered.
    if (auto removed = directory.Remove(kDataFile); !removed) {
      return std::unexpected(removed.error());
    }
  }
  auto env = LmdbEnv::Open(options.directory, options.map_bytes);
  if (!env) return std::unexpected(fmt::format("data.mdb: {}", env.error()));
  if (bytes >= kDataBytesMin && bytes < (*env)->used_bytes()) {
    return std::unexpected(
        fmt::format("data.mdb has {} bytes and must have {}; it was cut off, restore it from a "
                    "backup",
                    bytes, (*env)->used_bytes()));
  }
  return env;
}

// The index is derived: whatever is wrong with it, it starts empty and is built from the events.
std::expected<std::unique_ptr<LmdbColdIndex>, std::string> OpenIndex(
    LedgerDirectory& directory, const LmdbLedgerOptions& options) {
  const std::string path = directory.PathOf(kIndexDirectory);
  const std::uint64_t bytes = directory.FileBytes(std::string(kIndexDirectory) + "/" + kDataFile);
  if (bytes >= kDataBytesMin) {
    auto env = LmdbEnv::Open(path, options.map_bytes);
    if (env && bytes >= (*env)->used_bytes()) {
      auto index = LmdbColdIndex::Open(std::move(*env));
      if (index) return index;
    }
    Log(LogLevel::kWarn, "the key index cannot be read and is built anew");
  }
  if (auto renewed = directory.Renew(kIndexDirectory); !renewed) {
    return std::unexpected(renewed.error());
  }
  auto env = LmdbEnv::Open(path, options.map_bytes);
  if (!env) return std::unexpected(fmt::format("the key index: {}", env.error()));
  return LmdbColdIndex::Open(std::move(*env));
}

std::expected<LedgerParts, std::string> OpenParts(std::shared_ptr<LedgerDirectory> directory,
                                                  const LmdbLedgerOptions& options) {
  auto env = OpenData(*directory, options);
  if (!env) return std::unexpected(env.error());
  LmdbEnv& data = **env;
  auto log = LmdbEventLog::Open(std::move(*env));
  if (!log) return std::unexpected(log.error());
  if (!directory->is_sealed()) {
    if (auto synced = data.SyncFile(); !synced) return std::unexpected(synced.error());
    if (auto sealed = directory->Seal(); !sealed) return std::unexpected(sealed.error());
  }
  auto index = OpenIndex(*directory, options);
  if (!index) return std::unexpected(index.error());
  LedgerParts parts;
  parts.resources = std::move(directory);
  parts.log = std::move(*log);
  parts.cold = std::move(*index);
  return parts;
}

}  // namespace

std::expected<LedgerParts, std::string> OpenLmdbParts(const LmdbLedgerOptions& options) {
  auto directory = LedgerDirectory::Lock(options.directory);
  if (!directory) return std::unexpected(Line(options.directory, directory.error()));
  auto parts = OpenParts(std::move(*directory), options);
  if (!parts) return std::unexpected(Line(options.directory, parts.error()));
  return parts;
}

std::expected<std::unique_ptr<Ledger>, std::string> OpenLmdbLedger(const LmdbLedgerOptions& options,
                                                                   const Clock& clock) {
  auto parts = OpenLmdbParts(options);
  if (!parts) return std::unexpected(parts.error());
  auto engine = StartEngine(std::move(*parts), clock);
  if (!engine) return std::unexpected(Line(options.directory, engine.error()));
  return std::make_unique<GroupCommitLedger>(std::move(*engine), clock);
}

}  // namespace recourse
