// Streams as backends of one stream's pools have them: by number, and waited for.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "allocators/cuda/cuda_check.h"
#include "allocators/cuda/driver.h"

namespace allocmark {

// A stream's number among those that are live; 0 is the default stream.
[[nodiscard]] inline caching::Stream number_of(cudaStream_t stream) {
  return reinterpret_cast<caching::Stream>(stream);
}

// Blocks the host until the work that each has now is done. Throws EnvironmentError where a call
// fails.
inline void wait_for_streams(std::span<const cudaStream_t> streams) {
  for (const cudaStream_t stream : streams) ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(stream));
}

}  // namespace allocmark
