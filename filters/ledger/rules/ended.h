// Whether the stored answer of a write is told no more. Pure.
#pragma once

#include <cstdint>

namespace recourse {

// Whether something has ended it. kPerhaps: nobody can tell, so that it is neither told as if it
// stood nor made again.
enum class Ended : std::uint8_t { kNo, kPerhaps, kYes };
// The more certain one.
inline Ended Either(Ended one, Ended other) { return one < other ? other : one; }

}  // namespace recourse
