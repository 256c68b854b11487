// What a process has met with its database, and with the others of its group.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace recourse {

struct SharedLedgerCounts {
  bool is_up = true;                               // the database answered when it was asked last
  std::uint64_t in_doubt = 0;                      // batches whose answer was lost
  std::uint64_t fenced = 0;                        // times that this process was taken for dead
  std::uint64_t takeovers = 0;                     // dead processes whose work it took over
  std::map<std::string, std::uint64_t> retries{};  // batches decided anew, by SQLSTATE
};

// What a Ledger of many processes is, too.
class SharedLedgerCounter {
 public:
  virtual ~SharedLedgerCounter() = default;
  virtual SharedLedgerCounts SharedCounts() = 0;  // thread-safe
};

}  // namespace recourse
