// How the stream of a process ends: what that was told, and what the database has. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "proxy/base/crypto/hash.h"

namespace recourse {

struct StreamEnd {
  std::uint64_t number = 0;  // of the last row
  Digest chain{};            // its hash
  bool operator==(const StreamEnd&) const = default;
};

enum class EndFound : std::uint8_t {
  kAcknowledged,
  kInDoubt,   // the batch whose answer was lost was written
  kWentBack,  // the database was put back to an older state
};

// `in_doubt`: null, or how that batch ends. `found`: nullopt where the stream is not listed. Nobody
// else writes to it; but a process that began since the database went back may have been given its
// number, so that the hash tells.
inline EndFound JudgeEnd(const StreamEnd& acknowledged, const StreamEnd* in_doubt,
                         const std::optional<StreamEnd>& found) {
  if (in_doubt != nullptr && found == *in_doubt) return EndFound::kInDoubt;
  return found == acknowledged ? EndFound::kAcknowledged : EndFound::kWentBack;
}

// Of a look beside the batches: more than `before` may have been written meanwhile, and `now` has
// been acknowledged since. True: the process is to ask for its end.
inline bool SeemsGone(const StreamEnd& before, const StreamEnd& found, const StreamEnd& now) {
  if (before.number == 0 || found == before) return false;
  return found.number <= before.number || now == before;
}

}  // namespace recourse
