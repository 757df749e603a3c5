// The ballast.
#include "harness/core/replay/ballast.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "allocators/cuda/cuda_check.h"
#include "allocators/cuda/driver_mapping.h"
#include "base/bytes.h"
#include "base/error.h"
#include "harness/core/replay/capacity.h"
#include "harness/core/replay/simcu_api.h"

namespace allocmark {

namespace {

constexpr int kTryCountMax = 8;

std::uint64_t whole_pages(std::uint64_t size_bytes) {
  return size_bytes / kDevicePageBytes * kDevicePageBytes;
}

// Where the memory is the host's, a refusal means that the host hung: what fits is only asked.
void after_refusal() {
  const SimcuApi simcu = SimcuApi::find();
  if (simcu.present) simcu.restart_host();
}

}  // namespace

// Page cache gives way to requests, and what a host needs to live cannot be had.
std::uint64_t device_free_bytes() {
  if (const auto host = SimcuApi::find().host()) return host->available_bytes - host->reserve_bytes;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return free_bytes;
}

std::uint64_t usable_device_bytes(bool is_simulated) {
  const std::uint64_t page_bytes = whole_pages(device_free_bytes());
  return is_simulated ? page_bytes - std::min(page_bytes, kDevicePageBytes) : page_bytes;
}

Ballast::Ballast(std::uint64_t left_bytes) {
  const std::uint64_t free_bytes = device_free_bytes();
  if (free_bytes < left_bytes) {
    throw UsageError(ErrorText{.what = "the capacity is larger than what the device has free",
                               .where = "--capacity",
                               .wanted = "at most " + format_bytes(free_bytes),
                               .got = format_bytes(left_bytes),
                               .next = "choose a smaller capacity, or unlimited"});
  }
  // An H200 gives one page less than the whole pages it reports free; other cards are found out.
  std::uint64_t held_bytes = whole_pages(free_bytes - left_bytes);
  held_bytes -= std::min(held_bytes, kDevicePageBytes);
  for (int i = 0; i < kTryCountMax; ++i) {
    const bool taken = held_bytes == 0 || take(held_bytes);
    const bool enough = taken && fits(left_bytes);
    const bool exact = enough && (held_bytes == 0 || !fits(left_bytes + kDevicePageBytes));
    if (exact) return;
    release();
    if (enough) {
      held_bytes += kDevicePageBytes;
    } else if (held_bytes == 0) {
      break;
    } else {
      held_bytes -= kDevicePageBytes;
    }
  }
  throw EnvironmentError(ErrorText{.what = "the device cannot be filled up to the capacity",
                                   .where = "ballast",
                                   .wanted = format_bytes(left_bytes) + " left free",
                                   .got = format_bytes(device_free_bytes()) + " free",
                                   .next = "see that no other program uses this GPU"});
}

// What the device reports free says little about its last pages; whether a block of that size can
// be had says all, because its pages need not lie together.
bool Ballast::fits(std::uint64_t size_bytes) {
  void* probe = nullptr;
  const cudaError_t error = cudaMalloc(&probe, size_bytes);
  if (is_out_of_memory(error)) {
    after_refusal();
    return false;
  }
  ALLOCMARK_CUDA_CHECK(error);
  ALLOCMARK_CUDA_CHECK(cudaFree(probe));
  return true;
}

Ballast::~Ballast() { release(); }

bool Ballast::take(std::uint64_t size_bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  ALLOCMARK_CUDA_CHECK(cudaGetDevice(&properties.location.id));
  CUmemGenericAllocationHandle pages = 0;
  const CUresult result = driver_mapping().create(&pages, size_bytes, &properties, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    after_refusal();
    return false;
  }
  if (result != CUDA_SUCCESS) {
    throw EnvironmentError(ErrorText{.what = "the device's memory cannot be held back",
                                     .where = "cuMemCreate",
                                     .wanted = format_bytes(size_bytes),
                                     .got = "CUDA driver error " + std::to_string(result),
                                     .next = "use --capacity unlimited"});
  }
  pages_ = pages;
  return true;
}

void Ballast::release() noexcept {
  if (pages_ != 0) (void)driver_mapping().release(pages_);
  pages_ = 0;
}

}  // namespace allocmark
