// In which order a pool looks through the blocks that other streams freed. The rule is that of an
// H200 (driver 580.159, CUDA 13.0, 2026-11-24), found with random programs.
#include <cuda_runtime_api.h>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/conformance.h"

namespace {

using conformance::kMiB;

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  return stream;
}

void* block_on(cudaStream_t stream) {
  void* block = nullptr;
  REQUIRE(cudaMallocAsync(&block, 32 * kMiB, stream) == cudaSuccess);
  return block;
}

// The stream gets its place, and leaves nothing behind.
void use(cudaStream_t stream) {
  REQUIRE(cudaFreeAsync(block_on(stream), stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
}

// Whose block does `asking` get, where `left` and `right` have freed one each?
cudaStream_t first_looked_at(cudaStream_t left, cudaStream_t right, cudaStream_t asking) {
  void* const of_left = block_on(left);
  void* const of_right = block_on(right);
  REQUIRE(cudaFreeAsync(of_left, left) == cudaSuccess);
  REQUIRE(cudaFreeAsync(of_right, right) == cudaSuccess);
  void* const got = block_on(asking);
  REQUIRE((got == of_left || got == of_right));
  REQUIRE(cudaFreeAsync(got, asking) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  return got == of_left ? left : right;
}

}  // namespace

TEST_CASE("a stream that a pool meets first takes the place of one that was destroyed") {
  use(cudaStreamLegacy);  // has its place from here on
  const cudaStream_t first = new_stream();
  const cudaStream_t second = new_stream();
  const cudaStream_t asking = new_stream();
  use(first);
  use(second);
  CHECK(first_looked_at(first, second, asking) == first);
  CHECK(first_looked_at(second, first, asking) == first);
  REQUIRE(cudaStreamDestroy(first) == cudaSuccess);

  const cudaStream_t later = new_stream();
  use(later);
  CHECK(first_looked_at(second, later, asking) == later);
  for (cudaStream_t stream : {second, asking, later})
    REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
}
