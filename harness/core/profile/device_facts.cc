// See device_facts.h. NVML is opened at run time: a machine may lack it.
#include "harness/core/profile/device_facts.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "base/error.h"
#include "harness/simcuda/core/units.h"

namespace allocmark {
namespace {

// Ids above the last known attribute answer with an error, which is how their number is found.
constexpr int kAttributeIdMax = 200;
constexpr int kLimitIdMax = 16;
// An H200 gives one page less than the whole pages that are free; more is not to be expected.
constexpr std::uint64_t kPageTryCountMax = 64;

// The functions of NVML that are needed, by the types of its documentation.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    const auto init = find<int (*)()>("nvmlInit_v2");
    ready_ = init != nullptr && init() == 0;
  }
  ~Nvml() {
    if (const auto shutdown = find<int (*)()>("nvmlShutdown"); ready_ && shutdown != nullptr) {
      (void)shutdown();
    }
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  void fill(int device, DeviceFacts* facts) const {
    if (!ready_) return;
    char text[96] = {};
    using AskVersion = int (*)(char*, unsigned);
    if (const auto version = find<AskVersion>("nvmlSystemGetDriverVersion");
        version != nullptr && version(text, sizeof text) == 0) {
      facts->driver_version = text;
    }
    unsigned gpu_count = 0;
    using AskCount = int (*)(unsigned*);
    if (const auto count = find<AskCount>("nvmlDeviceGetCount_v2");
        count != nullptr && count(&gpu_count) == 0) {
      facts->machine_gpu_count = static_cast<int>(gpu_count);
    }
    char bus_id[32] = {};
    void* handle = nullptr;
    using ByBusId = int (*)(const char*, void**);
    const auto by_bus_id = find<ByBusId>("nvmlDeviceGetHandleByPciBusId_v2");
    if (by_bus_id == nullptr || cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device) != 0 ||
        by_bus_id(bus_id, &handle) != 0) {
      (void)cudaGetLastError();
      return;
    }
    using Number = int (*)(void*, unsigned*);
    if (const auto power = find<Number>("nvmlDeviceGetPowerUsage")) {
      (void)power(handle, &facts->power_milliwatt);
    }
    if (const auto limit = find<Number>("nvmlDeviceGetPowerManagementLimit")) {
      (void)limit(handle, &facts->power_limit_milliwatt);
    }
    using Temperature = int (*)(void*, int, unsigned*);
    constexpr int kSensorGpu = 0;
    if (const auto temperature = find<Temperature>("nvmlDeviceGetTemperature")) {
      (void)temperature(handle, kSensorGpu, &facts->temperature_celsius);
    }
  }

 private:
  template <typename Function>
  [[nodiscard]] Function find(const char* name) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_ = nullptr;
  bool ready_ = false;
};

std::uint64_t find_page_limit(std::uint64_t free_bytes) {
  for (std::uint64_t less = 0; less < kPageTryCountMax; ++less) {
    const std::uint64_t pages = free_bytes / simcuda::kPageBytes - less;
    void* block = nullptr;
    const cudaError_t error = cudaMalloc(&block, pages * simcuda::kPageBytes);
    if (is_out_of_memory(error)) continue;
    ALLOCMARK_CUDA_CHECK(error);
    ALLOCMARK_CUDA_CHECK(cudaFree(block));
    return pages;
  }
  throw EnvironmentError({.what = "the device gives much less memory than it says it has free",
                          .where = "allocmark profile",
                          .wanted = format_bytes(free_bytes) + " in one block, less some pages",
                          .got = "out of memory",
                          .next = "see that no other program uses this GPU"});
}

std::uint64_t find_chunk_limit(int device) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaMemPoolCreate(&pool, &properties));
  std::vector<void*> blocks;
  cudaError_t error = cudaSuccess;
  while (error == cudaSuccess) {
    void* block = nullptr;
    error = cudaMallocFromPoolAsync(&block, simcuda::kChunkBytes, pool, nullptr);
    if (error == cudaSuccess) blocks.push_back(block);
  }
  if (!is_out_of_memory(error)) ALLOCMARK_CUDA_CHECK(error);
  for (void* block : blocks) ALLOCMARK_CUDA_CHECK(cudaFreeAsync(block, nullptr));
  ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  ALLOCMARK_CUDA_CHECK(cudaMemPoolDestroy(pool));
  return blocks.size();
}

}  // namespace

DeviceFacts find_device_facts() {
  DeviceFacts facts;
  ALLOCMARK_CUDA_CHECK(cudaFree(nullptr));
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  facts.free_bytes_initial = free_bytes;
  facts.total_bytes = total_bytes;
  int device = 0;
  ALLOCMARK_CUDA_CHECK(cudaGetDevice(&device));
  cudaDeviceProp properties{};
  ALLOCMARK_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  facts.name = properties.name;
  ALLOCMARK_CUDA_CHECK(cudaDriverGetVersion(&facts.cuda_version));
  ALLOCMARK_CUDA_CHECK(cudaGetDeviceCount(&facts.machine_gpu_count));  // where NVML is missing
  for (int id = 1; id <= kAttributeIdMax; ++id) {
    int value = 0;
    if (cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(id), device) == cudaSuccess) {
      facts.attributes.push_back({id, value});
    }
  }
  for (int id = 0; id <= kLimitIdMax; ++id) {
    std::size_t value = 0;
    if (cudaDeviceGetLimit(&value, static_cast<cudaLimit>(id)) == cudaSuccess) {
      facts.limits.push_back({id, static_cast<std::int64_t>(value)});
    }
  }
  (void)cudaGetLastError();
  facts.page_limit = find_page_limit(free_bytes);
  facts.chunk_limit = find_chunk_limit(device);
  Nvml().fill(device, &facts);
  return facts;
}

}  // namespace allocmark
