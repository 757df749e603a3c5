// How many blocks of a kernel fit on a multiprocessor, by the device's limits of threads, blocks
// and shared memory. Registers are not known: kernels have no code here. In: block sizes. Out:
// numbers of blocks.
#include <algorithm>

#include "harness/simcuda/shim/kernel_models.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

constexpr int kWarpThreads = 32;

struct BlockShape {
  int thread_count = 0;
  std::size_t dynamic_bytes = 0;  // of shared memory
};

cudaError_t blocks_per_processor(const ThreadState& thread, int* block_count, BlockShape block) {
  const SimulatedDevice* const device = current_device(thread);
  if (block_count == nullptr || device == nullptr || block.thread_count <= 0) {
    return device == nullptr ? cudaErrorNoDevice : cudaErrorInvalidValue;
  }
  const auto limit = [&](cudaDeviceAttr id) { return device->profile.attributes.at(id); };
  *block_count = 0;
  const std::size_t block_bytes_max =
      static_cast<std::size_t>(limit(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  if (block.thread_count > limit(cudaDevAttrMaxThreadsPerBlock) ||
      block.dynamic_bytes > block_bytes_max) {
    return cudaSuccess;
  }
  const int warps = (block.thread_count + kWarpThreads - 1) / kWarpThreads;
  int count = limit(cudaDevAttrMaxThreadsPerMultiProcessor) / (warps * kWarpThreads);
  count = std::min(count, limit(cudaDevAttrMaxBlocksPerMultiprocessor));
  const std::size_t block_bytes =
      block.dynamic_bytes +
      static_cast<std::size_t>(limit(cudaDevAttrReservedSharedMemoryPerBlock));
  const std::size_t processor_bytes =
      static_cast<std::size_t>(limit(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  *block_count =
      block_bytes == 0 ? count : std::min(count, static_cast<int>(processor_bytes / block_bytes));
  return cudaSuccess;
}

// The largest block that fills a processor's threads, and blocks of it for all processors.
cudaError_t best_block(const ThreadState& thread, int* grid_min, int* block_threads,
                       CUoccupancyB2DSize bytes_of, BlockShape limits) {
  const SimulatedDevice* const device = current_device(thread);
  if (grid_min == nullptr || block_threads == nullptr || device == nullptr) {
    return device == nullptr ? cudaErrorNoDevice : cudaErrorInvalidValue;
  }
  const auto limit = [&](cudaDeviceAttr id) { return device->profile.attributes.at(id); };
  int threads_max = limit(cudaDevAttrMaxThreadsPerBlock);
  if (limits.thread_count > 0) threads_max = std::min(threads_max, limits.thread_count);
  *grid_min = 0;
  *block_threads = 0;
  int busy_max = 0;
  for (int size = threads_max; size > 0; size -= kWarpThreads) {
    int count = 0;
    const std::size_t bytes = bytes_of == nullptr ? limits.dynamic_bytes : bytes_of(size);
    const cudaError_t error = blocks_per_processor(thread, &count, {size, bytes});
    if (error != cudaSuccess) return error;
    if (count * size <= busy_max) continue;
    busy_max = count * size;
    *block_threads = size;
    *grid_min = count * limit(cudaDevAttrMultiProcessorCount);
  }
  return cudaSuccess;
}

}  // namespace

SIMCUDA_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* block_count,
                                                                         const void* function,
                                                                         int block_size,
                                                                         size_t dynamic_bytes) {
  return runtime_call<"cudaOccupancyMaxActiveBlocksPerMultiprocessor">(
      {number(function)}, [&](ThreadState& thread) {
        return blocks_per_processor(thread, block_count, {block_size, dynamic_bytes});
      });
}

SIMCUDA_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* block_count, const void* function, int block_size, size_t dynamic_bytes,
    unsigned int flags) {
  return runtime_call<"cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags">(
      {number(function), flags}, [&](ThreadState& thread) {
        return blocks_per_processor(thread, block_count, {block_size, dynamic_bytes});
      });
}

SIMCUDA_DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor,
               (int* block_count, CUfunction function, int block_size, size_t dynamic_bytes),
               (number(function)),
               blocks_per_processor(thread, block_count, {block_size, dynamic_bytes}))
SIMCUDA_DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
               (int* block_count, CUfunction function, int block_size, size_t dynamic_bytes,
                unsigned int flags),
               (number(function), flags),
               blocks_per_processor(thread, block_count, {block_size, dynamic_bytes}))
SIMCUDA_DRIVER(cuOccupancyMaxPotentialBlockSize,
               (int* grid_min, int* block_size, CUfunction function, CUoccupancyB2DSize bytes_of,
                size_t dynamic_bytes, int block_limit),
               (number(function)),
               best_block(thread, grid_min, block_size, bytes_of, {block_limit, dynamic_bytes}))
SIMCUDA_DRIVER(cuOccupancyMaxPotentialBlockSizeWithFlags,
               (int* grid_min, int* block_size, CUfunction function, CUoccupancyB2DSize bytes_of,
                size_t dynamic_bytes, int block_limit, unsigned int flags),
               (number(function), flags),
               best_block(thread, grid_min, block_size, bytes_of, {block_limit, dynamic_bytes}))

}  // namespace simcuda
