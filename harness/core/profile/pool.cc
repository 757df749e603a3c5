// The stream-ordered pool as programs use it: three recorded ones are replayed. Requests that it
// serves from what it has, the cost of mapping 32 MiB chunks, and of giving them back at a
// synchronisation.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include "allocators/cuda/cuda_check.h"
#include "harness/core/profile/blocks.h"
#include "harness/core/profile/program.h"
#include "harness/core/replay/ballast.h"
#include "harness/simcuda/core/device.h"
#include "harness/simcuda/core/units.h"

namespace allocmark {
namespace {

// What a recorded program makes a stream-ordered pool do, step by step. CUDA tells of a pool only
// how much it holds; how many chunks a request maps (a pool also moves chunks that it has) and
// among how many free blocks it looks, the simulated pool says, which is held against the growth of
// the real one. A program flows in; work per step flows out. Times nothing.
struct PoolProgram {
  SlotProgram program;
  // 32 MiB chunks that a step maps, by step; 0 for frees.
  std::vector<std::uint64_t> chunks_mapped;
  // The median number of free blocks that the pool has when a step begins.
  std::uint64_t free_block_count = 0;
};

// Far enough apart that every free has happened when the next step begins, as on an idle GPU.
constexpr std::uint64_t kStepNs = 10'000;

// A pool of its own on a simulated device, empty.
class SimulatedPool {
 public:
  SimulatedPool()
      : device_(simcuda::h200_config(simcuda::StartState::Plain)),
        pool_(device_.create_pool(0).pool),
        stream_(device_.create_stream(simcuda::StreamKind::NonBlocking, now_ns_).stream) {}

  // The simulated device's work for one step.
  simcuda::Work take(const SlotStep& step, std::uint64_t* address) {
    now_ns_ += kStepNs;
    if (step.is_free) return device_.deallocate_async(*address, stream_, now_ns_).work;
    const simcuda::AllocationOutcome outcome =
        device_.allocate_async(step.size_bytes, stream_, pool_, now_ns_);
    *address = outcome.address;
    return outcome.work;
  }
  [[nodiscard]] std::uint64_t free_block_count() const { return device_.free_block_count(); }

 private:
  std::uint64_t now_ns_ = 0;
  simcuda::Device device_;
  simcuda::PoolId pool_;
  simcuda::StreamId stream_;
};

// The program on a pool that is empty before and after. `chunks_grown`: by how many chunks the real
// pool grew at each step; where the simulated pool disagrees at a step, the growth counts.
PoolProgram follow_pool(SlotProgram program, const std::vector<std::uint64_t>& chunks_grown) {
  PoolProgram result{.program = std::move(program), .chunks_mapped = {}};
  SimulatedPool pool;
  std::vector<std::uint64_t> addresses(result.program.slot_count);
  std::vector<std::uint64_t> free_block_counts;
  for (std::size_t i = 0; i < result.program.steps.size(); ++i) {
    const SlotStep& step = result.program.steps[i];
    free_block_counts.push_back(pool.free_block_count());
    const simcuda::Work work = pool.take(step, &addresses[step.slot]);
    const bool agrees = work.chunks_taken == chunks_grown[i];
    result.chunks_mapped.push_back(agrees ? work.chunks_mapped : chunks_grown[i]);
  }
  const auto middle = free_block_counts.begin() + free_block_counts.size() / 2;
  std::nth_element(free_block_counts.begin(), middle, free_block_counts.end());
  if (!free_block_counts.empty()) result.free_block_count = *middle;
  return result;
}

// A pool of our own, and a stream to use it on: the device's default pool stays as it is.
class Pool {
 public:
  explicit Pool(std::uint64_t release_threshold_bytes) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    ALLOCMARK_CUDA_CHECK(cudaGetDevice(&properties.location.id));
    ALLOCMARK_CUDA_CHECK(cudaMemPoolCreate(&pool_, &properties));
    ALLOCMARK_CUDA_CHECK(
        cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &release_threshold_bytes));
    ALLOCMARK_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~Pool() {
    (void)cudaStreamSynchronize(stream_);
    (void)cudaMemPoolDestroy(pool_);
    (void)cudaStreamDestroy(stream_);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  [[nodiscard]] cudaError_t allocate(void** block, std::uint64_t size_bytes) {
    return cudaMallocFromPoolAsync(block, size_bytes, pool_, stream_);
  }
  void free(void* block) { ALLOCMARK_CUDA_CHECK(cudaFreeAsync(block, stream_)); }
  void synchronize() { ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(stream_)); }
  [[nodiscard]] std::uint64_t chunk_count() const {
    std::uint64_t reserved_bytes = 0;
    ALLOCMARK_CUDA_CHECK(
        cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved_bytes));
    return reserved_bytes / simcuda::kChunkBytes;
  }

 private:
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// After a request for that many bytes.
void check_request(const BlockSetup& setup, const Pool& pool, std::uint64_t size_bytes,
                   cudaError_t error) {
  if (is_out_of_memory(error)) {
    throw_no_memory(setup, {.call = "cudaMallocAsync",
                            .size_bytes = size_bytes,
                            .held_bytes = pool.chunk_count() * simcuda::kChunkBytes});
  }
  ALLOCMARK_CUDA_CHECK(error);
}

// Gives everything back at a synchronisation, as the default pool does.
PoolProgram ask_pool(const BlockSetup& setup, std::string_view name) {
  SlotProgram program = load_program(name);
  Pool pool(0);
  std::vector<void*> blocks(program.slot_count);
  std::vector<std::uint64_t> chunks_grown;
  for (const SlotStep& step : program.steps) {
    const std::uint64_t chunks_before = pool.chunk_count();
    if (step.is_free) {
      pool.free(blocks[step.slot]);
    } else {
      check_request(setup, pool, step.size_bytes,
                    pool.allocate(&blocks[step.slot], step.size_bytes));
    }
    chunks_grown.push_back(pool.chunk_count() - chunks_before);
  }
  return follow_pool(std::move(program), chunks_grown);
}

const PoolProgram& known_program(const BlockSetup& setup, std::string_view name) {
  static std::map<std::string_view, PoolProgram> known;
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  return known.emplace(name, ask_pool(setup, name)).first->second;
}

// Requests that are served at once by how many free blocks there are, chunks by bytes in use.
void replay(const BlockSetup& setup, std::string_view name, std::uint64_t chunk_level) {
  const PoolProgram& known = known_program(setup, name);
  const std::uint64_t hit_level = known.free_block_count;
  Pool pool(0);
  std::vector<void*> blocks(known.program.slot_count);
  for (std::size_t i = 0; i < known.program.steps.size(); ++i) {
    const SlotStep& step = known.program.steps[i];
    void*& block = blocks[step.slot];
    if (step.is_free) {
      setup.out.add({"cudaFreeAsync", hit_level}, 0, setup.time([&] { pool.free(block); }));
      continue;
    }
    cudaError_t error = cudaSuccess;
    const std::uint64_t duration_ns =
        setup.time([&] { error = pool.allocate(&block, step.size_bytes); });
    check_request(setup, pool, step.size_bytes, error);
    if (known.chunks_mapped[i] == 0) {
      setup.out.add({"cudaMallocAsync", hit_level}, 0, duration_ns);
    } else {
      setup.out.add({"cudaMallocAsync.chunks", chunk_level}, known.chunks_mapped[i], duration_ns);
    }
  }
  pool.synchronize();
}

void measure_objects(const BlockSetup& setup) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  ALLOCMARK_CUDA_CHECK(cudaGetDevice(&properties.location.id));
  constexpr std::uint32_t kPoolCount = 5;
  for (std::uint32_t i = 0; i < kPoolCount; ++i) {
    cudaMemPool_t pool = nullptr;
    setup.out.add("cudaMemPoolCreate", 0,
                  setup.time([&] { ALLOCMARK_CUDA_CHECK(cudaMemPoolCreate(&pool, &properties)); }));
    setup.out.add("cudaMemPoolDestroy", 0,
                  setup.time([&] { ALLOCMARK_CUDA_CHECK(cudaMemPoolDestroy(pool)); }));
  }
}

// Timed with the synchronisation that brings it about; profile.cc takes that off.
void measure_release(const BlockSetup& setup) {
  struct Amount {
    std::uint64_t chunk_count;
    std::uint32_t repeat_count;
  };
  constexpr std::array<Amount, 5> kAmounts = {{{1, 10}, {2, 10}, {8, 6}, {32, 3}, {128, 2}}};
  const std::uint64_t free_bytes = device_free_bytes();
  Pool pool(0);
  for (const Amount& amount : kAmounts) {
    if (amount.chunk_count * simcuda::kChunkBytes > free_bytes / 2) return;
    for (std::uint32_t i = 0; i < amount.repeat_count; ++i) {
      void* block = nullptr;
      const std::uint64_t size_bytes = amount.chunk_count * simcuda::kChunkBytes;
      check_request(setup, pool, size_bytes, pool.allocate(&block, size_bytes));
      const bool taken = pool.chunk_count() == amount.chunk_count;
      pool.free(block);
      const std::uint64_t duration_ns = setup.time([&] { pool.synchronize(); });
      if (taken && pool.chunk_count() == 0) {
        setup.out.add("release.chunks", amount.chunk_count, duration_ns);
      }
    }
  }
}

}  // namespace

void measure_small_pool(const BlockSetup& setup) {
  replay(setup, kSmallProgramName, kSmallProgramBytes);
}

void measure_pool_programs(const BlockSetup& setup, std::optional<std::uint64_t> chunk_level) {
  replay(setup, kSmallProgramName, chunk_level.value_or(kSmallProgramBytes));
  replay(setup, kMediumProgramName, chunk_level.value_or(kSmallProgramBytes));
  if (device_free_bytes() > kLargeProgramBytesMax) {
    replay(setup, kLargeProgramName, chunk_level.value_or(kLargeProgramBytes));
  }
}

void measure_pool(const BlockSetup& setup) {
  measure_pool_programs(setup, std::nullopt);
  measure_release(setup);
  measure_objects(setup);
}

}  // namespace allocmark
