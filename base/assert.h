// Checks against our own mistakes; on in every build, never inside a timed region.
#pragma once

#include <cstdio>
#include <cstdlib>

#define ALLOCMARK_ASSERT(condition)                                                         \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      std::fprintf(stderr, "%s:%d: internal error: %s does not hold\n", __FILE__, __LINE__, \
                   #condition);                                                             \
      std::abort();                                                                         \
    }                                                                                       \
  } while (false)
