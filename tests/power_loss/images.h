// Builds disks that a power cut may leave, starts the real recovery on each, and asks it for every
// commit that had been acknowledged.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "filters/ledger/seal/key_ring.h"
#include "proxy/base/crypto/hash.h"
#include "tests/power_loss/disk_model.h"

namespace recourse {

// Somebody was told at `entry` (an index into the log) that this is durable.
struct Acknowledged {
  std::size_t entry = 0;
  Digest key{};
  bool is_finished = false;  // its success, else its DISPATCHING
  bool stays_open = false;   // it never had an outcome in that history
};

struct ImagePlan {
  std::vector<Acknowledged> acknowledged;  // by entry
  std::vector<std::size_t> busy;           // entries of starts and recoveries, cut more often
  std::size_t images = 2'000;
  std::uint64_t seed = 1;
  Trust trust;
  std::optional<DiskModel> start;          // what the history began with; unset: nothing
  std::shared_ptr<const LedgerKeys> keys;  // null: seals stay closed
  std::string scratch;                     // a directory; what is in it is replaced
};

struct ImageReport {
  std::size_t images = 0, nested = 0;
  std::vector<std::string> findings;  // each names its image; a few at most
};

// Uses two child processes. A child that dies is a finding.
ImageReport CheckImages(const ShimLog& log, const ImagePlan& plan);

}  // namespace recourse
