// How many blocks of a kernel fit on a multiprocessor, by the device's limits of threads, blocks
// and shared memory. Registers are not known: kernels have no code here. In: block sizes. Out:
// numbers of blocks, or the shared memory that so many leave to each.
#include <algorithm>

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
  if (device == nullptr) return cudaErrorNoDevice;
  if (block_count == nullptr || block.thread_count <= 0) return cudaErrorInvalidValue;
  *block_count = 0;
  const std::size_t block_bytes_max =
      static_cast<std::size_t>(device->attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  if (block.thread_count > device->attribute(cudaDevAttrMaxThreadsPerBlock) ||
      block.dynamic_bytes > block_bytes_max) {
    return cudaSuccess;
  }
  const int warps = (block.thread_count + kWarpThreads - 1) / kWarpThreads;
  int count = device->attribute(cudaDevAttrMaxThreadsPerMultiProcessor) / (warps * kWarpThreads);
  count = std::min(count, device->attribute(cudaDevAttrMaxBlocksPerMultiprocessor));
  const std::size_t block_bytes =
      block.dynamic_bytes +
      static_cast<std::size_t>(device->attribute(cudaDevAttrReservedSharedMemoryPerBlock));
  const std::size_t processor_bytes =
      static_cast<std::size_t>(device->attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  *block_count =
      block_bytes == 0 ? count : std::min(count, static_cast<int>(processor_bytes / block_bytes));
  return cudaSuccess;
}

// Shared memory that each block can have while `block_count` of them fit; 0 where none can.
cudaError_t bytes_left_per_block(const ThreadState& thread, std::size_t* dynamic_bytes,
                                 int block_count, int block_size) {
  int count_max = 0;
  const cudaError_t error = blocks_per_processor(thread, &count_max, {block_size, 0});
  if (error != cudaSuccess) return error;
  if (dynamic_bytes == nullptr || block_count <= 0) return cudaErrorInvalidValue;
  *dynamic_bytes = 0;
  if (block_count > count_max) return cudaSuccess;
  const auto limit_bytes = [&](cudaDeviceAttr id) {
    return static_cast<std::size_t>(current_device(thread)->attribute(id));
  };
  constexpr std::size_t kSharedUnitBytes = 128;
  const std::size_t share_bytes = limit_bytes(cudaDevAttrMaxSharedMemoryPerMultiprocessor) /
                                  static_cast<std::size_t>(block_count);
  *dynamic_bytes = std::min(share_bytes / kSharedUnitBytes * kSharedUnitBytes -
                                limit_bytes(cudaDevAttrReservedSharedMemoryPerBlock),
                            limit_bytes(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  return cudaSuccess;
}

// A launch with clusters, as the runtime and the driver both write it.
struct ClusterLaunch {
  BlockShape block;
  std::uint64_t blocks_per_cluster = 1;
};

// Groups of processors, of which one holds a cluster, are not known: all clusters that processors
// have room for are counted.
cudaError_t clusters_on_device(const ThreadState& thread, int* cluster_count,
                               const ClusterLaunch& launch) {
  int count = 0;
  const cudaError_t error = blocks_per_processor(thread, &count, launch.block);
  if (error != cudaSuccess) return error;
  if (cluster_count == nullptr || launch.blocks_per_cluster == 0) return cudaErrorInvalidValue;
  const int processors = current_device(thread)->attribute(cudaDevAttrMultiProcessorCount);
  *cluster_count =
      static_cast<int>(static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(processors) /
                       launch.blocks_per_cluster);
  return cudaSuccess;
}

// Every device that has clusters takes this many blocks in one.
cudaError_t largest_cluster(int* block_count) {
  constexpr int kPortableBlocksMax = 8;
  if (block_count == nullptr) return cudaErrorInvalidValue;
  *block_count = kPortableBlocksMax;
  return cudaSuccess;
}

int thread_count(std::uint64_t x, std::uint64_t y, std::uint64_t z) {
  constexpr std::uint64_t kTooMany = 1 << 20;
  return static_cast<int>(std::min(x * y * z, kTooMany));
}

template <class Dimensions>
std::uint64_t block_count(const Dimensions& cluster) {
  return std::uint64_t{cluster.x} * cluster.y * cluster.z;
}

ClusterLaunch to_launch(const cudaLaunchConfig_t& asked) {
  ClusterLaunch launch;
  launch.block = {thread_count(asked.blockDim.x, asked.blockDim.y, asked.blockDim.z),
                  asked.dynamicSmemBytes};
  for (unsigned i = 0; i < asked.numAttrs; ++i) {
    if (asked.attrs[i].id != cudaLaunchAttributeClusterDimension) continue;
    launch.blocks_per_cluster = block_count(asked.attrs[i].val.clusterDim);
  }
  return launch;
}

ClusterLaunch to_launch(const CUlaunchConfig& asked) {
  ClusterLaunch launch;
  launch.block = {thread_count(asked.blockDimX, asked.blockDimY, asked.blockDimZ),
                  asked.sharedMemBytes};
  for (unsigned i = 0; i < asked.numAttrs; ++i) {
    if (asked.attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    launch.blocks_per_cluster = block_count(asked.attrs[i].value.clusterDim);
  }
  return launch;
}

// The largest block that fills a processor's threads, and blocks of it for all processors.
cudaError_t best_block(const ThreadState& thread, int* grid_min, int* block_threads,
                       CUoccupancyB2DSize bytes_of, BlockShape limits) {
  const SimulatedDevice* const device = current_device(thread);
  if (device == nullptr) return cudaErrorNoDevice;
  if (grid_min == nullptr || block_threads == nullptr) return cudaErrorInvalidValue;
  int threads_max = device->attribute(cudaDevAttrMaxThreadsPerBlock);
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
    *grid_min = count * device->attribute(cudaDevAttrMultiProcessorCount);
  }
  return cudaSuccess;
}

}  // namespace

SIMCUDA_PAIR(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
             (int* block_count, const void* function, int block_size, size_t dynamic_bytes),
             cuOccupancyMaxActiveBlocksPerMultiprocessor,
             (int* block_count, CUfunction function, int block_size, size_t dynamic_bytes),
             (number(function)),
             blocks_per_processor(thread, block_count, {block_size, dynamic_bytes}))

SIMCUDA_PAIR(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
             (int* block_count, const void* function, int block_size, size_t dynamic_bytes,
              unsigned int flags),
             cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
             (int* block_count, CUfunction function, int block_size, size_t dynamic_bytes,
              unsigned int flags),
             (number(function), flags),
             blocks_per_processor(thread, block_count, {block_size, dynamic_bytes}))

SIMCUDA_PAIR(cudaOccupancyAvailableDynamicSMemPerBlock,
             (size_t * dynamic_bytes, const void* function, int block_count, int block_size),
             cuOccupancyAvailableDynamicSMemPerBlock,
             (size_t * dynamic_bytes, CUfunction function, int block_count, int block_size),
             (number(function)),
             bytes_left_per_block(thread, dynamic_bytes, block_count, block_size))

SIMCUDA_PAIR(cudaOccupancyMaxActiveClusters,
             (int* cluster_count, const void* function, const cudaLaunchConfig_t* asked),
             cuOccupancyMaxActiveClusters,
             (int* cluster_count, CUfunction function, const CUlaunchConfig* asked),
             (number(function)),
             asked == nullptr ? cudaErrorInvalidValue
                              : clusters_on_device(thread, cluster_count, to_launch(*asked)))

SIMCUDA_PAIR(cudaOccupancyMaxPotentialClusterSize,
             (int* size, const void* function, const cudaLaunchConfig_t*),
             cuOccupancyMaxPotentialClusterSize,
             (int* size, CUfunction function, const CUlaunchConfig*), (number(function)),
             largest_cluster(size))

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
