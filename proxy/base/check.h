// RC_CHECK: for what only a bug of ours can break. Always on; ends the process. Input is never
// checked with it.
#pragma once

#include <cstdio>
#include <cstdlib>

#define RC_CHECK(condition)                                                               \
  do {                                                                                    \
    if (!(condition)) [[unlikely]] {                                                      \
      std::fprintf(stderr, "recourse: check failed: %s at %s:%d\n", #condition, __FILE__, \
                   __LINE__);                                                             \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)
