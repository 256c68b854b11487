#include "filters/ledger/lmdb/backup_file.h"

#include <limits>
#include <utility>

#include "filters/ledger/lmdb/data_file.h"
#include "filters/ledger/lmdb/lmdb_event_log.h"
#include "filters/ledger/queries/log_queries.h"

namespace recourse {

std::expected<VerifyReport, std::string> VerifyLedgerFile(const std::string& path) {
  auto file = DataFile::Open(path);
  if (!file) return std::unexpected(file.error());
  if (auto checked = (*file)->Check(std::numeric_limits<std::size_t>::max()); !checked) {
    return std::unexpected(checked.error());
  }
  auto env = LmdbEnv::OpenCopy(path);
  if (!env) return std::unexpected(env.error());
  auto log = LmdbEventLog::Open(std::move(*env), std::move(*file));
  if (!log) return std::unexpected(log.error());
  return VerifyChain(**log);
}

}  // namespace recourse
