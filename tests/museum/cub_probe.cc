// Bugs of cub::CachingDeviceAllocator, each shown on simcuda by the class itself, with the headers
// of the release that it is compiled against. scripts/measure/library_museum.py runs it.
#ifndef CCCL_IGNORE_DEPRECATED_API
#define CCCL_IGNORE_DEPRECATED_API
#endif
#define CUB_IGNORE_DEPRECATED_API
#include <cuda_runtime.h>

#include <cub/util_allocator.cuh>

#include "tests/museum/fence.h"
#include "tests/museum/probe.h"

namespace {

using museum::Kernel;
using museum::make_stream;
using Cub = cub::CachingDeviceAllocator;

constexpr std::size_t kBytes = 256 << 10;                   // a block of the cache
constexpr std::size_t kAbsurdBytes = std::size_t{1} << 46;  // more than any device has

void* take(Cub& cub, cudaStream_t stream, std::size_t size_bytes = kBytes) {
  void* pointer = nullptr;
  MUSEUM_CHECK(cub.DeviceAllocate(&pointer, size_bytes, stream));
  return pointer;
}

// One thread frees a block that its kernel uses, another asks on another stream.
std::string block_before_event() {
  struct Stage {
    Cub cub;
    cudaStream_t one = make_stream();
    cudaStream_t two = make_stream();
    void* freed = take(cub, one);
    Kernel kernel{one};
    void* taken = nullptr;
    bool runs = false;
  };
  return museum::search([] {
    auto* const stage = new Stage;
    return museum::Try{
        .first = [stage] { MUSEUM_CHECK(stage->cub.DeviceFree(stage->freed)); },
        .second =
            [stage] {
              stage->taken = take(stage->cub, stage->two);
              stage->runs = cudaStreamQuery(stage->one) == cudaErrorNotReady;
            },
        .look = [stage](const std::string& place) -> std::string {
          if (stage->taken != stage->freed || !stage->runs) return {};
          return "DeviceFree stood at " + place +
                 "; another thread got the block on another stream while the block's kernel ran";
        }};
  });
}

// One thread frees a block, another gives back what is cached, as a request that runs out of memory
// does.
std::string event_destroyed() {
  struct Stage {
    Cub cub;
    void* freed = take(cub, make_stream());
    cudaError_t error = cudaSuccess;
  };
  return museum::search([] {
    auto* const stage = new Stage;
    return museum::Try{.first = [stage] { stage->error = stage->cub.DeviceFree(stage->freed); },
                       .second = [stage] { MUSEUM_CHECK(stage->cub.FreeAllCached()); },
                       .look = [stage](const std::string& place) -> std::string {
                         if (stage->error == cudaSuccess) return {};
                         return "DeviceFree stood at " + place +
                                "; another thread called FreeAllCached; DeviceFree then returned " +
                                cudaGetErrorName(stage->error);
                       }};
  });
}

std::string per_thread_stream() {
  Cub cub;
  void* const used = take(cub, cudaStreamPerThread);
  const Kernel kernel(cudaStreamPerThread);
  MUSEUM_CHECK(cub.DeviceFree(used));
  void* other = nullptr;
  std::thread([&] { other = take(cub, cudaStreamPerThread); }).join();
  if (other != used || cudaStreamQuery(cudaStreamPerThread) != cudaErrorNotReady) return {};
  return "a block of one thread's cudaStreamPerThread went to another thread's, unordered";
}

std::string lock_kept_on_error() {
  auto& cub = *new Cub;
  void* const block = take(cub, nullptr);
  {
    const simcu::Fault fault("cudaEventRecord", 1, cudaErrorUnknown);
    if (cub.DeviceFree(block) != cudaErrorUnknown) throw std::runtime_error("no fault");
  }
  if (museum::comes_back([&] { (void)take(cub, nullptr); })) return {};
  return "after a DeviceFree that failed, the next call waits for the lock for ever";
}

// Ends the process where the erased block is read.
std::string walks_erased_block() {
  museum::begin_fence();
  Cub cub;
  MUSEUM_CHECK(cub.DeviceFree(take(cub, nullptr)));
  void* none = nullptr;
  if (cub.DeviceAllocate(&none, kAbsurdBytes, nullptr) != cudaErrorMemoryAllocation) {
    throw std::runtime_error("64 TiB were served");
  }
  return {};
}

std::string second_free() {
  Cub cub;
  void* const block = take(cub, nullptr);
  MUSEUM_CHECK(cub.DeviceFree(block));
  (void)cub.DeviceFree(block);
  (void)cudaGetLastError();
  void* const again = take(cub, nullptr);
  std::uint64_t base = 0;
  std::uint64_t size_bytes = 0;
  int device = 0;
  if (SIMCU(simcu_allocation_of)(again, &base, &size_bytes, &device) == 0) return {};
  return "after a second free of a cached block, a request got memory that is not allocated";
}

std::string device_stays_changed() {
  Cub cub;
  void* none = nullptr;
  MUSEUM_CHECK(cudaSetDevice(0));
  if (cub.DeviceAllocate(1, &none, kAbsurdBytes, nullptr) == cudaSuccess) {
    throw std::runtime_error("64 TiB were served");
  }
  int device = 0;
  MUSEUM_CHECK(cudaGetDevice(&device));
  return device == 0 ? "" : "a request for device 1 that failed left device 1 current, not 0";
}

std::string block_without_event() {
  auto& cub = *new Cub;
  const std::uint64_t before_bytes = SIMCU(simcu_used_bytes)();
  {
    const simcu::Fault fault("cudaEventCreateWithFlags", 1, cudaErrorUnknown);
    void* none = nullptr;
    if (cub.DeviceAllocate(&none, std::size_t{64} << 20, nullptr) != cudaErrorUnknown) {
      throw std::runtime_error("no fault");
    }
  }
  MUSEUM_CHECK(cub.FreeAllCached());
  const std::uint64_t lost_bytes = SIMCU(simcu_used_bytes)() - before_bytes;
  return lost_bytes == 0 ? ""
                         : "no event could be made: the request failed and lost " +
                               std::to_string(lost_bytes >> 20) + " MiB";
}

std::string error_stays() {
  Cub cub;
  void* none = nullptr;
  (void)cub.DeviceAllocate(&none, kAbsurdBytes, nullptr);
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return std::string("a request failed, and cudaGetLastError says ") + cudaGetErrorName(error) +
         " to whoever asks next";
}

std::string failed_query_is_done() {
  auto& cub = *new Cub;
  cudaStream_t const one = make_stream();
  void* const used = take(cub, one);
  const Kernel kernel(one);
  MUSEUM_CHECK(cub.DeviceFree(used));
  const simcu::Fault fault("cudaEventQuery", 1, cudaErrorUnknown);
  if (take(cub, make_stream()) != used) return {};
  return "a cudaEventQuery that failed counted as 'done': the block went out while its kernel ran";
}

std::string endless_rounding() {
  auto& cub = *new Cub;
  const bool back = museum::comes_back([&] {
    void* none = nullptr;
    (void)cub.DeviceAllocate(&none, 0x9fff'ffff'ffff'ffff, nullptr);
  });
  return back ? "" : "a request of 0x9fffffffffffffff bytes never comes back";
}

std::string smallest_bin_wraps() {
  Cub cub(8, 11, 12);  // bins of 8 and 64 GiB
  void* pointer = nullptr;
  if (cub.DeviceAllocate(&pointer, 512, nullptr) != cudaSuccess || pointer != nullptr) return {};
  return "with a smallest bin of 8 GiB, 512 bytes got a null pointer and cudaSuccess";
}

constexpr museum::Bug kBugs[] = {
    {"block_before_event", block_before_event},
    {"event_destroyed", event_destroyed},
    {"per_thread_stream", per_thread_stream},
    {"lock_kept_on_error", lock_kept_on_error},
    {"walks_erased_block", walks_erased_block},
    {"second_free", second_free},
    {"device_stays_changed", device_stays_changed},
    {"block_without_event", block_without_event},
    {"error_stays", error_stays},
    {"failed_query_is_done", failed_query_is_done},
    {"endless_rounding", endless_rounding},
    {"smallest_bin_wraps", smallest_bin_wraps},
};

}  // namespace

int main(int argc, char** argv) { return museum::main_of(kBugs, argc, argv); }
