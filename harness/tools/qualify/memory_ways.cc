// See memory_ways.h.
#include "harness/tools/qualify/memory_ways.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "allocators/cuda/cuda_check.h"
#include "allocators/cuda/driver_mapping.h"
#include "base/bytes.h"
#include "base/error.h"

namespace allocmark::qualify {
namespace {

int current_device() {
  int device = 0;
  ALLOCMARK_CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

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
    properties.location.id = current_device();
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

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  throw EnvironmentError({.what = std::string(call) + " failed",
                          .where = "CUDA driver",
                          .got = "error " + std::to_string(result)});
}

// The driver's virtual memory calls: pages with an address of their own.
class MappedWay final : public MemoryWay {
 public:
  explicit MappedWay(int device) {
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  }
  [[nodiscard]] std::string_view name() const override { return "cuMemCreate"; }

  std::optional<TakenBlock> take(std::uint64_t size_bytes) override {
    constexpr std::uint64_t kPageBytes = 2 * kMiB;
    TakenBlock block{.size_bytes = (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes};
    if (!has_memory(driver_.create(&block.handle, block.size_bytes, &properties_, 0),
                    "cuMemCreate")) {
      return std::nullopt;
    }
    CUdeviceptr address = 0;
    check(driver_.reserve(&address, block.size_bytes, 0, 0, 0), "cuMemAddressReserve");
    check(driver_.map(address, block.size_bytes, 0, block.handle, 0), "cuMemMap");
    block.pointer = reinterpret_cast<void*>(address);
    const CUmemAccessDesc access{properties_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (has_memory(driver_.set_access(address, block.size_bytes, &access, 1), "cuMemSetAccess")) {
      return block;
    }
    give_back(block);
    return std::nullopt;
  }
  void give_back(const TakenBlock& block) override {
    const auto address = reinterpret_cast<CUdeviceptr>(block.pointer);
    check(driver_.unmap(address, block.size_bytes), "cuMemUnmap");
    check(driver_.free_address(address, block.size_bytes), "cuMemAddressFree");
    check(driver_.release(block.handle), "cuMemRelease");
  }
  void settle() override { ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize()); }

 private:
  static bool has_memory(CUresult result, const char* call) {
    if (result != CUDA_ERROR_OUT_OF_MEMORY) check(result, call);
    return result == CUDA_SUCCESS;
  }

  const DriverMapping& driver_ = driver_mapping();
  CUmemAllocationProp properties_{};
};

bool device_has(cudaDeviceAttr attribute) {
  int value = 0;
  ALLOCMARK_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, current_device()));
  return value != 0;
}

// The runtime has no name for this attribute.
bool device_maps() {
  decltype(&::cuDeviceGetAttribute) ask = nullptr;
  look_up_driver("cuDeviceGetAttribute", ask);
  int value = 0;
  const CUresult result =
      ask(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, current_device());
  return result == CUDA_SUCCESS && value != 0;
}

}  // namespace

std::vector<std::unique_ptr<MemoryWay>> memory_ways() {
  std::vector<std::unique_ptr<MemoryWay>> ways;
  ways.push_back(std::make_unique<MallocWay>());
  if (device_has(cudaDevAttrMemoryPoolsSupported)) ways.push_back(std::make_unique<PoolWay>());
  if (device_maps()) ways.push_back(std::make_unique<MappedWay>(current_device()));
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
