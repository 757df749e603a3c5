#include "harness/tools/simcheck/driver_calls.h"

#include <cuda.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "allocators/cuda/cuda_check.h"
#include "allocators/cuda/driver_entry_point.h"
#include "base/error.h"

namespace allocmark::simcheck {
namespace {

constexpr std::uint64_t kTouchedBytesMax = 64;  // at a block's end

// The driver's functions, as of CUDA 12.0.
struct Functions {
#define ALLOCMARK_DRIVER(name) decltype(&::name) name = nullptr;
#define ALLOCMARK_DRIVERS(each)                                                                  \
  each(cuMemAlloc) each(cuMemFree) each(cuMemGetAddressRange) each(cuMemGetInfo)                 \
      each(cuPointerGetAttributes) each(cuMemsetD8) each(cuMemcpyDtoH) each(cuMemAllocAsync)     \
          each(cuMemFreeAsync) each(cuStreamSynchronize) each(cuDeviceGetDefaultMemPool)         \
              each(cuMemPoolGetAttribute) each(cuMemPoolTrimTo)                                  \
                  each(cuMemGetAllocationGranularity) each(cuMemAddressReserve)                  \
                      each(cuMemAddressFree) each(cuMemCreate) each(cuMemRelease) each(cuMemMap) \
                          each(cuMemUnmap) each(cuMemSetAccess) each(cuMemGetAccess)
  ALLOCMARK_DRIVERS(ALLOCMARK_DRIVER)
#undef ALLOCMARK_DRIVER
  Functions() {
#define ALLOCMARK_NAME(name) #name
#define ALLOCMARK_DRIVER(name) look_up_driver(plain_name(ALLOCMARK_NAME(name)).c_str(), this->name);
    ALLOCMARK_DRIVERS(ALLOCMARK_DRIVER)
#undef ALLOCMARK_DRIVER
#undef ALLOCMARK_NAME
#undef ALLOCMARK_DRIVERS
  }
  // The header renames functions to their newest version.
  static std::string plain_name(std::string name) { return name.substr(0, name.find("_v")); }
};

void expect(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  throw EnvironmentError({.what = std::string("the driver's ") + call + " failed",
                          .where = "CUDA driver",
                          .wanted = "0",
                          .got = std::to_string(static_cast<int>(result)),
                          .next = "run the program's shortest form on a GPU"});
}

void expect_equal(std::uint64_t driver, std::uint64_t runtime, const char* what) {
  if (driver == runtime) return;
  throw EnvironmentError({.what = std::string("driver and runtime differ: ") + what,
                          .where = "CUDA driver",
                          .wanted = std::to_string(runtime),
                          .got = std::to_string(driver),
                          .next = "both are one device: mend the one that is wrong"});
}

class Calls : public DriverCalls {
 public:
  std::string questions(std::uint64_t address, std::uint64_t size_bytes) override {
    if (address == 0) return "";
    const std::uint64_t inside = address + size_bytes / 2;
    CUdeviceptr begin = 0;
    std::size_t range_bytes = 0;
    const CUresult found = functions_.cuMemGetAddressRange(&begin, &range_bytes, inside);
    unsigned int memory_type = 0;
    int ordinal = -1;
    unsigned int is_managed = 9;
    std::array<CUpointer_attribute, 3> names = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                                CU_POINTER_ATTRIBUTE_IS_MANAGED};
    std::array<void*, 3> values = {&memory_type, &ordinal, &is_managed};
    expect(functions_.cuPointerGetAttributes(3, names.data(), values.data(), inside),
           "cuPointerGetAttributes");
    cudaPointerAttributes attributes{};
    ALLOCMARK_CUDA_CHECK(
        cudaPointerGetAttributes(&attributes, reinterpret_cast<const void*>(inside)));
    expect_equal(memory_type, attributes.type, "the memory's kind");
    expect_equal(static_cast<std::uint64_t>(ordinal), static_cast<std::uint64_t>(attributes.device),
                 "the memory's device");
    // Devices are counted from the one that is used, which may be any of a machine's.
    return fmt::format(" range {} {} {} kind {} {} {} bytes {}", static_cast<int>(found),
                       found == CUDA_SUCCESS ? address - begin : 0, range_bytes, memory_type,
                       ordinal - device(), is_managed, touch(address, size_bytes));
  }

 protected:
  // Writes the block's last bytes by the driver, and reads them by both.
  int touch(std::uint64_t address, std::uint64_t size_bytes) {
    const std::uint64_t count = std::min(size_bytes, kTouchedBytesMax);
    const std::uint64_t place = address + size_bytes - count;
    const auto value = static_cast<unsigned char>(++written_);
    expect(functions_.cuMemsetD8(place, value, count), "cuMemsetD8");
    std::array<unsigned char, kTouchedBytesMax> by_driver{};
    std::array<unsigned char, kTouchedBytesMax> by_runtime{};
    expect(functions_.cuMemcpyDtoH(by_driver.data(), place, count), "cuMemcpyDtoH");
    ALLOCMARK_CUDA_CHECK(cudaMemcpy(by_runtime.data(), reinterpret_cast<const void*>(place), count,
                                    cudaMemcpyDeviceToHost));
    expect_equal(by_driver[count - 1], by_runtime[count - 1], "bytes of a block");
    return by_driver[0] == value && by_driver[count - 1] == value ? 1 : 0;
  }
  void compare_totals() {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    std::size_t runtime_free_bytes = 0;
    std::size_t runtime_total_bytes = 0;
    expect(functions_.cuMemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo");
    ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&runtime_free_bytes, &runtime_total_bytes));
    expect_equal(free_bytes, runtime_free_bytes, "free bytes of the device");
    expect_equal(total_bytes, runtime_total_bytes, "total bytes of the device");
  }
  // The device of the calling thread.
  static int device() {
    int index = 0;
    ALLOCMARK_CUDA_CHECK(cudaGetDevice(&index));
    return index;
  }

  Functions functions_;

 private:
  unsigned written_ = 0;
};

// cuMemAlloc and cuMemFree.
class Malloc : public Calls {
 public:
  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, cudaStream_t) override {
    CUdeviceptr address = 0;
    if (size_bytes == 0) return 0;
    const CUresult result = functions_.cuMemAlloc(&address, size_bytes);
    compare_totals();
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return std::nullopt;
    expect(result, "cuMemAlloc");
    return address;
  }
  std::string deallocate(std::uint64_t address, cudaStream_t) override {
    if (address == 0) return "";
    const CUresult inside = functions_.cuMemFree(address + 1);
    const CUresult first = functions_.cuMemFree(address);
    const CUresult second = functions_.cuMemFree(address);
    compare_totals();
    return fmt::format(" freed {} {} {}", static_cast<int>(inside), static_cast<int>(first),
                       static_cast<int>(second));
  }
  std::string trim() override { return ""; }
};

// cuMemAllocAsync and cuMemFreeAsync, on the default pool.
class Pool : public Calls {
 public:
  Pool() {
    expect(functions_.cuDeviceGetDefaultMemPool(&pool_, device()), "cuDeviceGetDefaultMemPool");
  }
  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    CUdeviceptr address = 0;
    if (size_bytes == 0) return 0;
    const CUresult result = functions_.cuMemAllocAsync(&address, size_bytes, stream);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return std::nullopt;
    expect(result, "cuMemAllocAsync");
    expect(functions_.cuStreamSynchronize(stream), "cuStreamSynchronize");
    return address;
  }
  std::string questions(std::uint64_t address, std::uint64_t size_bytes) override {
    return address == 0 ? "" : Calls::questions(address, size_bytes) + usage();
  }
  std::string deallocate(std::uint64_t address, cudaStream_t stream) override {
    if (address == 0) return "";
    expect(functions_.cuMemFreeAsync(address, stream), "cuMemFreeAsync");
    return usage();
  }
  std::string trim() override {
    expect(functions_.cuMemPoolTrimTo(pool_, 0), "cuMemPoolTrimTo");
    compare_totals();
    return usage();
  }

 private:
  std::string usage() {
    std::uint64_t used = 0;
    std::uint64_t reserved = 0;
    std::uint64_t runtime_used = 0;
    expect(functions_.cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used),
           "cuMemPoolGetAttribute");
    expect(functions_.cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved),
           "cuMemPoolGetAttribute");
    cudaMemPool_t runtime_pool = nullptr;
    ALLOCMARK_CUDA_CHECK(cudaDeviceGetDefaultMemPool(&runtime_pool, device()));
    ALLOCMARK_CUDA_CHECK(
        cudaMemPoolGetAttribute(runtime_pool, cudaMemPoolAttrUsedMemCurrent, &runtime_used));
    expect_equal(used, runtime_used, "used bytes of the default pool");
    return fmt::format(" used {} reserved {}", used, reserved);
  }

  CUmemoryPool pool_ = nullptr;
};

// Reserved addresses with physical memory behind them: a mapping for each block.
class Map : public Calls {
 public:
  Map() {
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, device()};
    expect(functions_.cuMemGetAllocationGranularity(&granularity_bytes_, &properties_,
                                                    CU_MEM_ALLOC_GRANULARITY_MINIMUM),
           "cuMemGetAllocationGranularity");
  }
  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, cudaStream_t) override {
    if (size_bytes == 0) return 0;
    const std::uint64_t bytes =
        (size_bytes + granularity_bytes_ - 1) / granularity_bytes_ * granularity_bytes_;
    Mapping mapping{.size_bytes = bytes};
    const CUresult created = functions_.cuMemCreate(&mapping.handle, bytes, &properties_, 0);
    compare_totals();
    if (created == CUDA_ERROR_OUT_OF_MEMORY) return std::nullopt;
    expect(created, "cuMemCreate");
    CUdeviceptr address = 0;
    expect(functions_.cuMemAddressReserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
    expect(functions_.cuMemMap(address, bytes, 0, mapping.handle, 0), "cuMemMap");
    const CUmemAccessDesc access = {properties_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    expect(functions_.cuMemSetAccess(address, bytes, &access, 1), "cuMemSetAccess");
    mappings_[address] = mapping;
    return address;
  }
  std::string questions(std::uint64_t address, std::uint64_t size_bytes) override {
    if (address == 0) return "";
    unsigned long long flags = 9;
    const CUresult asked = functions_.cuMemGetAccess(&flags, &properties_.location, address);
    return fmt::format("{} access {} {}", Calls::questions(address, size_bytes),
                       static_cast<int>(asked), flags);
  }
  std::string deallocate(std::uint64_t address, cudaStream_t) override {
    if (address == 0) return "";
    const Mapping mapping = mappings_.at(address);
    mappings_.erase(address);
    // Freed before it is unmapped: refused.
    const CUresult early = functions_.cuMemAddressFree(address, mapping.size_bytes);
    expect(functions_.cuMemUnmap(address, mapping.size_bytes), "cuMemUnmap");
    expect(functions_.cuMemRelease(mapping.handle), "cuMemRelease");
    expect(functions_.cuMemAddressFree(address, mapping.size_bytes), "cuMemAddressFree");
    const CUresult again = functions_.cuMemUnmap(address, mapping.size_bytes);
    compare_totals();
    return fmt::format(" freed {} {}", static_cast<int>(early), static_cast<int>(again));
  }
  std::string trim() override { return ""; }

 private:
  struct Mapping {
    std::uint64_t size_bytes = 0;
    CUmemGenericAllocationHandle handle = 0;
  };
  CUmemAllocationProp properties_{};
  std::size_t granularity_bytes_ = 0;
  std::map<std::uint64_t, Mapping> mappings_;
};

}  // namespace

std::unique_ptr<DriverCalls> make_driver_calls(const std::string& kind) {
  if (kind == "malloc") return std::make_unique<Malloc>();
  if (kind == "pool") return std::make_unique<Pool>();
  if (kind == "map") return std::make_unique<Map>();
  throw UsageError({.what = "no such calls of the driver",
                    .where = kind,
                    .wanted = "malloc, pool or map",
                    .got = kind,
                    .next = "name one of them"});
}

}  // namespace allocmark::simcheck
