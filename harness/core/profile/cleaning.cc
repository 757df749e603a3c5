// How long freed memory takes to be clean: on a full device a block is freed and asked for again
// after a while. A request that comes too early waits for milliseconds.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "harness/core/profile/blocks.h"
#include "harness/core/replay/ballast.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kLeftBytes = 5 * kGiB;
constexpr std::uint64_t kBlockBytes = 4 * kGiB;
// A request that waits takes this much longer than one that does not.
constexpr std::uint64_t kWaitNsMin = 2'000'000;
constexpr std::uint64_t kDelayNsMax = 64'000'000;
constexpr int kStepCount = 9;
constexpr std::size_t kCleaningTryCount = 3;

struct CleaningAnswer {
  std::uint64_t free_ns = 0;     // how long the free took
  std::uint64_t request_ns = 0;  // and the request after it
};

// Frees a block of that size and asks for it again after a delay.
CleaningAnswer ask_again(const BlockSetup& setup, std::uint64_t size_bytes,
                         std::uint64_t delay_ns) {
  void* block = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaMalloc(&block, size_bytes));
  setup.work.launch(nullptr, kDelayNsMax);  // all is clean after it
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  CleaningAnswer answer;
  answer.free_ns = setup.time([&] { ALLOCMARK_CUDA_CHECK(cudaFree(block)); });
  if (delay_ns > 0) {
    setup.work.launch(nullptr, delay_ns);
    ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  }
  answer.request_ns = setup.time([&] { ALLOCMARK_CUDA_CHECK(cudaMalloc(&block, size_bytes)); });
  ALLOCMARK_CUDA_CHECK(cudaFree(block));
  setup.work.launch(nullptr, kDelayNsMax);
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  return answer;
}

}  // namespace

std::uint64_t measure_cleaning(const BlockSetup& setup) {
  if (setup.device_bytes < 2 * kLeftBytes) return 0;
  const Ballast ballast(kLeftBytes);
  std::array<std::uint64_t, kCleaningTryCount> found{};
  for (std::uint64_t& delay_ns : found) {
    const std::uint64_t clean_ns = ask_again(setup, kBlockBytes, kDelayNsMax).request_ns;
    const std::uint64_t dirty_ns = ask_again(setup, kBlockBytes, 0).request_ns;
    if (dirty_ns < clean_ns + kWaitNsMin) return 0;
    setup.out.add("cudaMalloc.wait_for_clean", 0, dirty_ns - clean_ns);
    std::uint64_t too_early_ns = 0;
    std::uint64_t free_ns = 0;
    delay_ns = kDelayNsMax;
    for (int i = 0; i < kStepCount; ++i) {
      const std::uint64_t middle_ns = (too_early_ns + delay_ns) / 2;
      const CleaningAnswer answer = ask_again(setup, kBlockBytes, middle_ns);
      const bool waited = answer.request_ns >= clean_ns + kWaitNsMin;
      if (waited) setup.out.add("cudaMalloc.wait_for_clean", 0, answer.request_ns - clean_ns);
      (waited ? too_early_ns : delay_ns) = middle_ns;
      free_ns = answer.free_ns;
    }
    // The device begins in the middle of the free.
    delay_ns += free_ns / 2;
  }
  std::sort(found.begin(), found.end());
  return kBlockBytes / std::max<std::uint64_t>(found[kCleaningTryCount / 2] / 1000, 1);
}

}  // namespace allocmark
