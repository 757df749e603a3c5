// Copies and fills, and pinned host memory. Sizes are small where the device is simulated: there
// contents are really moved.
#include <cuda_runtime_api.h>

#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "harness/core/profile/blocks.h"

namespace allocmark {
namespace {

constexpr std::uint32_t kCopyCount = 5;

void measure_host_copies(const BlockSetup& setup) {
  const std::uint64_t largest_bytes = 64 * kMiB;
  std::vector<char> host(largest_bytes);
  void* device = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaMalloc(&device, largest_bytes));
  for (const std::uint64_t size_bytes : {4 * kKiB, kMiB, largest_bytes}) {
    for (std::uint32_t i = 0; i < kCopyCount; ++i) {
      setup.out.add("cudaMemcpy.host_to_device", size_bytes, setup.time([&] {
        ALLOCMARK_CUDA_CHECK(cudaMemcpy(device, host.data(), size_bytes, cudaMemcpyHostToDevice));
      }));
      setup.out.add("cudaMemcpy.device_to_host", size_bytes, setup.time([&] {
        ALLOCMARK_CUDA_CHECK(cudaMemcpy(host.data(), device, size_bytes, cudaMemcpyDeviceToHost));
      }));
    }
  }
  ALLOCMARK_CUDA_CHECK(cudaFree(device));
}

// Timed with the call that starts it and the synchronisation that ends it; profile.cc takes these
// off.
void measure_device_copies(const BlockSetup& setup) {
  const std::uint64_t largest_bytes = setup.time.simulated() ? 16 * kMiB : kGiB;
  void* to = nullptr;
  void* from = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaMalloc(&to, largest_bytes));
  ALLOCMARK_CUDA_CHECK(cudaMalloc(&from, largest_bytes));
  for (const std::uint64_t size_bytes : {kMiB, largest_bytes}) {
    for (std::uint32_t i = 0; i < kCopyCount; ++i) {
      setup.out.add("cudaMemset.on_device", size_bytes, setup.time([&] {
        ALLOCMARK_CUDA_CHECK(cudaMemsetAsync(to, 0, size_bytes, nullptr));
        ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(nullptr));
      }));
      setup.out.add("cudaMemcpy.on_device", size_bytes, setup.time([&] {
        ALLOCMARK_CUDA_CHECK(
            cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToDevice, nullptr));
        ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(nullptr));
      }));
    }
  }
  ALLOCMARK_CUDA_CHECK(cudaFree(from));
  ALLOCMARK_CUDA_CHECK(cudaFree(to));
}

void measure_pinned_memory(const BlockSetup& setup) {
  for (const std::uint64_t size_bytes : {4 * kKiB, kMiB, 32 * kMiB}) {
    for (std::uint32_t i = 0; i < kCopyCount; ++i) {
      void* host = nullptr;
      setup.out.add("cudaMallocHost", size_bytes,
                    setup.time([&] { ALLOCMARK_CUDA_CHECK(cudaMallocHost(&host, size_bytes)); }));
      setup.out.add("cudaFreeHost", size_bytes,
                    setup.time([&] { ALLOCMARK_CUDA_CHECK(cudaFreeHost(host)); }));
    }
  }
}

}  // namespace

void measure_copies(const BlockSetup& setup) {
  measure_host_copies(setup);
  measure_device_copies(setup);
  measure_pinned_memory(setup);
}

}  // namespace allocmark
