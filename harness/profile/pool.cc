// The stream-ordered pool: requests that it serves from what it has, and the cost of taking 32 MiB
// chunks from the device and of giving them back at a synchronisation.
#include <cuda_runtime_api.h>

#include <array>
#include <vector>

#include "allocators/cuda_check.h"
#include "base/bytes.h"
#include "harness/ballast.h"
#include "harness/profile/blocks.h"
#include "harness/profile/program.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kChunkBytes = 32 * kMiB;
// What the pool holds while the two programs run, free parts included.
constexpr std::uint64_t kSmallPoolBytes = 1152 * kMiB;
constexpr std::uint64_t kLargePoolBytes = 18 * kGiB;

void check(cudaError_t error) { ALLOCMARK_CUDA_CHECK(error); }

// A pool of our own, and a stream to use it on: the device's default pool stays as it is.
class Pool {
 public:
  explicit Pool(std::uint64_t release_threshold_bytes) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    check(cudaGetDevice(&properties.location.id));
    check(cudaMemPoolCreate(&pool_, &properties));
    check(
        cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &release_threshold_bytes));
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~Pool() {
    (void)cudaStreamSynchronize(stream_);
    (void)cudaMemPoolDestroy(pool_);
    (void)cudaStreamDestroy(stream_);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  [[nodiscard]] void* allocate(std::uint64_t size_bytes) {
    void* block = nullptr;
    check(cudaMallocFromPoolAsync(&block, size_bytes, pool_, stream_));
    return block;
  }
  void free(void* block) { check(cudaFreeAsync(block, stream_)); }
  void synchronize() { check(cudaStreamSynchronize(stream_)); }
  [[nodiscard]] std::uint64_t chunk_count() const {
    std::uint64_t reserved_bytes = 0;
    check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved_bytes));
    return reserved_bytes / kChunkBytes;
  }

 private:
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// A request that is served at once takes about a microsecond, one that moves chunks tens of them.
constexpr std::uint64_t kHitNsMax = 15'000;

void measure_hits(const BlockSetup& setup, const Program& program, std::uint64_t level) {
  Pool pool(UINT64_MAX);
  std::vector<void*> blocks(program.slot_count);
  for (const ProgramStep& step : program.steps) {
    void*& block = blocks[step.slot];
    if (step.is_free) {
      setup.out.add({"cudaFreeAsync", level}, 0, setup.time([&] { pool.free(block); }));
      continue;
    }
    const std::uint64_t chunks_before = pool.chunk_count();
    const std::uint64_t duration_ns = setup.time([&] { block = pool.allocate(step.size_bytes); });
    // A pool also moves chunks that it has, which nothing tells but the time.
    const bool is_hit = pool.chunk_count() == chunks_before && duration_ns < kHitNsMax;
    if (is_hit) setup.out.add({"cudaMallocAsync", level}, 0, duration_ns);
  }
}

void measure_objects(const BlockSetup& setup) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  check(cudaGetDevice(&properties.location.id));
  constexpr std::uint32_t kPoolCount = 5;
  for (std::uint32_t i = 0; i < kPoolCount; ++i) {
    cudaMemPool_t pool = nullptr;
    setup.out.add("cudaMemPoolCreate", 0,
                  setup.time([&] { check(cudaMemPoolCreate(&pool, &properties)); }));
    setup.out.add("cudaMemPoolDestroy", 0, setup.time([&] { check(cudaMemPoolDestroy(pool)); }));
  }
}

}  // namespace

void measure_chunks(const BlockSetup& setup, std::uint64_t level) {
  struct Amount {
    std::uint64_t chunk_count;
    std::uint32_t repeat_count;
  };
  constexpr std::array<Amount, 5> kAmounts = {{{1, 10}, {2, 10}, {8, 6}, {32, 3}, {128, 2}}};
  const std::uint64_t free_bytes = device_free_bytes();
  Pool pool(0);
  for (const Amount& amount : kAmounts) {
    if (amount.chunk_count * kChunkBytes > free_bytes / 2) return;
    for (std::uint32_t i = 0; i < amount.repeat_count; ++i) {
      void* block = nullptr;
      const std::uint64_t take_ns =
          setup.time([&] { block = pool.allocate(amount.chunk_count * kChunkBytes); });
      const bool taken = pool.chunk_count() == amount.chunk_count;
      pool.free(block);
      // Timed with the synchronisation that brings it about; profile.cc takes that off.
      const std::uint64_t give_ns = setup.time([&] { pool.synchronize(); });
      if (taken) setup.out.add({"cudaMallocAsync.chunks", level}, amount.chunk_count, take_ns);
      if (taken && pool.chunk_count() == 0) {
        setup.out.add("release.chunks", amount.chunk_count, give_ns);
      }
    }
  }
}

void measure_pool(const BlockSetup& setup) {
  static const Program small = load_program(kSmallProgramName);
  static const Program large = load_program(kLargeProgramName);
  measure_hits(setup, small, kSmallPoolBytes);
  if (setup.device_bytes > 4 * kLargePoolBytes) measure_hits(setup, large, kLargePoolBytes);
  measure_chunks(setup, kSmallProgramBytes);
  measure_objects(setup);
}

}  // namespace allocmark
