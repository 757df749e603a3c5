// A call, printed with its code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdio>

#define SAY(call)                                           \
  do {                                                      \
    std::printf("%s: %d\n", #call, static_cast<int>(call)); \
    static_cast<void>(cudaGetLastError());                  \
  } while (false)
