// What a process has met with its database, and with the others of its group.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policy/model/ledger_rules.h"
#include "proxy/base/error.h"

namespace recourse {

struct SharedLedgerCounts {
  bool is_up = true;                               // the database answered when it was asked last
  std::uint64_t in_doubt = 0;                      // batches whose answer was lost
  std::uint64_t fenced = 0;                        // times that this process was taken for dead
  std::uint64_t takeovers = 0;                     // dead processes whose work it took over
  std::map<std::string, std::uint64_t> retries{};  // batches decided anew, by SQLSTATE
};

// What one start of a process has written.
struct LedgerStream {
  std::uint64_t stream = 0;
  std::string pod, state;
  std::uint64_t rows = 0, running = 0;  // running: is being sent, or waits longer
  std::int64_t silent_s = 0;            // since its last batch
};

// Old rows that could not be removed.
struct KeptRows {
  bool nobody_removes = false;  // no process of the group that may has had its turn in time
  struct Behind {
    std::uint64_t row = 0;        // the first one, which stays
    std::uint64_t operation = 0;  // 0: it is about none
    std::int64_t age_s = 0;       // its
    std::uint64_t rows = 0;       // old ones of its stream, with it; counted up to 100,000
  };
  std::vector<Behind> behind{};  // of so many streams
};

// What a Ledger of many processes is, too.
class SharedLedgerView {
 public:
  virtual ~SharedLedgerView() = default;
  virtual SharedLedgerCounts SharedCounts() = 0;  // thread-safe
  // The pods that do each other's work.
  virtual const std::string& Group() const = 0;
  // Whether the ledger of a volume was imported as the group's. Blocking; thread-safe.
  virtual Result<bool> HasImported() = 0;
  // Of the group, but for those that have ended and left nothing. Blocking; thread-safe.
  virtual Result<std::vector<LedgerStream>> Streams() = 0;
  // By that rule. Blocking; thread-safe.
  virtual Result<KeptRows> Kept(const LedgerRule& rule) = 0;
  // Which pod a stream of the group is, or was, of; empty: that cannot be told. Blocking;
  // thread-safe.
  virtual std::string PodOf(std::uint64_t stream) = 0;
};

}  // namespace recourse
