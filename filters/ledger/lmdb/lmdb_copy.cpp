#include "filters/ledger/lmdb/lmdb_copy.h"

#include <fcntl.h>
#include <lmdb.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "proxy/base/log/log.h"
#include "proxy/base/thread_name.h"

namespace recourse {

std::expected<std::unique_ptr<LedgerCopy>, std::string> LmdbCopy::Start(
    LmdbEnv& env, std::atomic<bool>& is_running) {
  if (is_running.exchange(true)) {
    return std::unexpected("another backup is running; wait until it has ended");
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    is_running = false;
    return std::unexpected(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  return std::unique_ptr<LedgerCopy>(new LmdbCopy(env, is_running, ends[0], ends[1]));
}

LmdbCopy::LmdbCopy(LmdbEnv& env, std::atomic<bool>& is_running, int read_end, int write_end)
    : is_running_(is_running), read_end_(read_end) {
  thread_ = std::thread([this, &env, write_end] {
    NameThread("recourse-backup");
    const int code = mdb_env_copyfd2(env.get(), write_end, MDB_CP_COMPACT);
    is_whole_ = code == 0;
    if (code != 0)
      Log(LogLevel::kWarn, "a backup was not completed", {{"reason", LmdbMessage(code)}});
    close(write_end);
  });
}

LmdbCopy::~LmdbCopy() {
  (void)Finish();
  is_running_ = false;
}

bool LmdbCopy::Finish() {
  // A copy that is still being written meets a closed pipe and ends.
  if (read_end_ >= 0) close(std::exchange(read_end_, -1));
  if (thread_.joinable()) thread_.join();
  return is_whole_;
}

}  // namespace recourse
