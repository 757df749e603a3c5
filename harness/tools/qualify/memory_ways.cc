// See memory_ways.h.
#include "harness/tools/qualify/memory_ways.h"

#include <cuda_runtime_api.h>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "harness/tools/qualify/mapping_calls.h"

namespace allocmark::qualify {
namespace {

class MallocWay final : public MemoryWay {
 public:
  [[nodiscard]] std::string_view name() const override { return "cudaMalloc"; }
  std::optional<TakenBlock> take(std::uint64_t size_bytes) override {
    TakenBlock block{.size_bytes = size_bytes};
    const cudaError_t error = cudaMalloc(&block.pointer, size_bytes);
    if (is_out_of_memory(error)) return std::nullopt;
    ALLOCMARK_CUDA_CHECK(error);
    return block;
  }
  void give_back(const TakenBlock& block) override {
    ALLOCMARK_CUDA_CHECK(cudaFree(block.pointer));
  }
  void settle() override { ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize()); }
};

// A pool of its own, so that the default pool stays as it is.
class PoolWay final : public MemoryWay {
 public:
  PoolWay() {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    ALLOCMARK_CUDA_CHECK(cudaGetDevice(&properties.location.id));
    ALLOCMARK_CUDA_CHECK(cudaMemPoolCreate(&pool_, &properties));
  }
  PoolWay(const PoolWay&) = delete;
  PoolWay& operator=(const PoolWay&) = delete;
  ~PoolWay() override { (void)cudaMemPoolDestroy(pool_); }

  [[nodiscard]] std::string_view name() const override { return "cudaMallocAsync"; }
  std::optional<TakenBlock> take(std::uint64_t size_bytes) override {
    TakenBlock block{.size_bytes = size_bytes};
    const cudaError_t error = cudaMallocFromPoolAsync(&block.pointer, size_bytes, pool_, nullptr);
    if (is_out_of_memory(error)) return std::nullopt;
    ALLOCMARK_CUDA_CHECK(error);
    return block;
  }
  void give_back(const TakenBlock& block) override {
    ALLOCMARK_CUDA_CHECK(cudaFreeAsync(block.pointer, nullptr));
  }
  void settle() override {
    ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
    ALLOCMARK_CUDA_CHECK(cudaMemPoolTrimTo(pool_, 0));
  }

 private:
  cudaMemPool_t pool_ = nullptr;
};

class MappedWay final : public MemoryWay {
 public:
  explicit MappedWay(const MappingCalls& calls) : calls_(calls) {}
  [[nodiscard]] std::string_view name() const override { return "cuMemCreate"; }

  std::optional<TakenBlock> take(std::uint64_t size_bytes) override {
    MappedPages pages{.size_bytes = (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes};
    if (!calls_.try_create(pages)) return std::nullopt;
    calls_.reserve(pages);
    calls_.map(pages);
    const TakenBlock block{.pointer = reinterpret_cast<void*>(pages.address),
                           .size_bytes = pages.size_bytes,
                           .handle = pages.handle};
    if (calls_.try_set_access(pages)) return block;
    give_back(block);
    return std::nullopt;
  }
  void give_back(const TakenBlock& block) override {
    const MappedPages pages{.size_bytes = block.size_bytes,
                            .address = reinterpret_cast<CUdeviceptr>(block.pointer),
                            .handle = block.handle};
    calls_.unmap(pages);
    calls_.free_address(pages);
    calls_.release(pages);
  }
  void settle() override { ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize()); }

 private:
  static constexpr std::uint64_t kPageBytes = 2 * kMiB;
  MappingCalls calls_;
};

bool device_has(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  ALLOCMARK_CUDA_CHECK(cudaGetDevice(&device));
  ALLOCMARK_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value != 0;
}

}  // namespace

std::vector<std::unique_ptr<MemoryWay>> memory_ways() {
  std::vector<std::unique_ptr<MemoryWay>> ways;
  ways.push_back(std::make_unique<MallocWay>());
  if (device_has(cudaDevAttrMemoryPoolsSupported)) ways.push_back(std::make_unique<PoolWay>());
  if (const std::optional<MappingCalls> calls = MappingCalls::find()) {
    ways.push_back(std::make_unique<MappedWay>(*calls));
  }
  return ways;
}

std::vector<TakenBlock> fill(MemoryWay& way, std::uint64_t largest_bytes,
                             std::uint64_t smallest_bytes) {
  std::vector<TakenBlock> blocks;
  for (std::uint64_t size_bytes = largest_bytes; size_bytes >= smallest_bytes; size_bytes /= 2) {
    while (const std::optional<TakenBlock> block = way.take(size_bytes)) blocks.push_back(*block);
  }
  return blocks;
}

void give_back_all(MemoryWay& way, std::vector<TakenBlock>& blocks) {
  while (!blocks.empty()) {
    way.give_back(blocks.back());
    blocks.pop_back();
  }
  way.settle();
}

std::uint64_t total_bytes(const std::vector<TakenBlock>& blocks) {
  std::uint64_t sum_bytes = 0;
  for (const TakenBlock& block : blocks) sum_bytes += block.size_bytes;
  return sum_bytes;
}

}  // namespace allocmark::qualify
