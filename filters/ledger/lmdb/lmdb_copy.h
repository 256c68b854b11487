// Copies a running LMDB environment through a pipe, compacted, on a thread of its own.
#pragma once

#include <atomic>
#include <expected>
#include <memory>
#include <string>
#include <thread>

#include "filters/ledger/ledger_copy.h"
#include "filters/ledger/lmdb/lmdb_env.h"

namespace recourse {

class LmdbCopy final : public LedgerCopy {
 public:
  // `env` and `is_running` outlive the copy. One copy at a time: fails while another one runs, with
  // a line for people.
  static std::expected<std::unique_ptr<LedgerCopy>, std::string> Start(
      LmdbEnv& env, std::atomic<bool>& is_running);
  ~LmdbCopy() override;

  int fd() const override { return read_end_; }
  bool Finish() override;

 private:
  LmdbCopy(LmdbEnv& env, std::atomic<bool>& is_running, int read_end, int write_end);

  std::atomic<bool>& is_running_;
  int read_end_;
  bool is_whole_ = false;  // written by thread_, read after it was joined
  std::thread thread_;
};

}  // namespace recourse
