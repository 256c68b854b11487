// Bounds of the pod's own CA and of what it signs. Apart from limits.h, which everything includes.
#pragma once

#include "proxy/base/limits.h"

namespace recourse::limits {

inline constexpr milliseconds kCaLife{7LL * 86'400'000};  // unless the command line says otherwise
inline constexpr milliseconds kCaLifeMin{3'600'000};
inline constexpr milliseconds kCaLifeMax{3650LL * 86'400'000};
// With less than a third of its life left, whatever has an end is made anew.
inline constexpr int kRenewalPart = 3;
// Clients' clocks may be behind by that much.
inline constexpr milliseconds kCertificateBackdate{5 * 60'000};
inline constexpr milliseconds kLeafLife{24 * 3'600'000};
// Names come from the policy, so more than a few hundred are the mark of a mistake.
inline constexpr std::size_t kLeavesMax = 512;
inline constexpr std::size_t kCaFileBytesMax = 64 * 1024;
// The system's has some 220 KiB; Mozilla's list grows slowly.
inline constexpr std::size_t kBundleBytesMax = 8 * 1024 * 1024;

static_assert(kLeafLife < kCaLife);

}  // namespace recourse::limits
