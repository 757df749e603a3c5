// Goal: the cache works on the CUDA runtime that is there: simcuda, or a card's. Method: pin,
// write, use on a stream, give back; nothing stays pinned. At most 6 MiB are pinned at a time.
#include <cuda_runtime_api.h>

#include <cstring>
#include <string_view>

#include "allocators/caching/config.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/host_caching/cuda_host_driver.h"
#include "allocators/host_caching/host_cache.h"
#include "base/bytes.h"
#include "tests/catch.h"

using namespace allocmark::host_caching;
using allocmark::kMiB;

namespace {

bool is_pinned(Address address) {
  cudaPointerAttributes attributes{};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(address));
  (void)cudaGetLastError();
  return error == cudaSuccess && attributes.type == cudaMemoryTypeHost;
}

}  // namespace

TEST_CASE("the cache pins memory of the CUDA runtime and gives it back", "[gpu]") {
  for (const std::string_view conf :
       {"", "pinned_use_cuda_host_register:True",
        "pinned_use_cuda_host_register:True,pinned_num_register_threads:4",
        "pinned_reserve_segment_size_mb:2"}) {
    INFO(conf);
    const auto config = allocmark::caching::parse_strict(conf);
    REQUIRE_FALSE(config.error.has_value());
    CudaHostDriver driver;
    cudaStream_t stream = nullptr;
    ALLOCMARK_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    void* device = nullptr;
    ALLOCMARK_CUDA_CHECK(cudaMalloc(&device, kMiB));
    Address first = 0;
    {
      HostCache cache(driver, config.settings);
      const PinnedBlock block = cache.allocate(kMiB - 5);
      first = block.address;
      REQUIRE(first != 0);
      CHECK(block.size_bytes == kMiB);
      CHECK(is_pinned(first));
      std::memset(reinterpret_cast<void*>(first), 1, block.size_bytes);
      ALLOCMARK_CUDA_CHECK(cudaMemcpyAsync(device, reinterpret_cast<void*>(first), kMiB,
                                           cudaMemcpyHostToDevice, stream));
      CHECK(cache.use(first, reinterpret_cast<Stream>(stream)));
      cache.deallocate(first);
      ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(stream));
      CHECK(cache.allocate(kMiB).address == first);
      cache.deallocate(first);
      cache.empty_cache();
      CHECK(is_pinned(first) == (conf == "pinned_reserve_segment_size_mb:2"));
    }
    CHECK_FALSE(is_pinned(first));
    ALLOCMARK_CUDA_CHECK(cudaFree(device));
    ALLOCMARK_CUDA_CHECK(cudaStreamDestroy(stream));
  }
}
