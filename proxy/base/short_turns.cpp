#include "proxy/base/short_turns.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace recourse {
namespace {

constexpr std::uint64_t kTurnNanoseconds = 100'000;

// sched_setattr(2), SCHED_ATTR_SIZE_VER0: the C library has no wrapper, and the header of the
// kernel defines `sched_param` a second time.
struct SchedAttributes {
  std::uint32_t size = sizeof(SchedAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

}  // namespace

void TakeShortTurns() {
  SchedAttributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;  // of others the number means something else
  attributes.runtime = kTurnNanoseconds;
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace recourse
