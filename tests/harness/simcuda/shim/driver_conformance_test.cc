// The driver's functions beside virtual memory management, found as programs of the driver find
// them (cuGetProcAddress, by name and version), beside the runtime's: both are one device. By
// NVIDIA's documentation; MODEL.md says what a GPU has been asked.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/conformance.h"
#include "tests/harness/simcuda/shim/driver_functions.h"

namespace {

using conformance::current_context;
using conformance::kMiB;
using conformance::libcuda;
using conformance::on_new_thread;
using conformance::symbol;

struct Lookup {
  CUresult result = CUDA_SUCCESS;
  void* function = nullptr;
  CUdriverProcAddressQueryResult query = CU_GET_PROC_ADDRESS_SUCCESS;
};
Lookup look_up(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
  DRIVER(cuGetProcAddress);
  Lookup answer;
  answer.result = cuGetProcAddress_found(name, &answer.function, version, flags, &answer.query);
  return answer;
}

}  // namespace

TEST_CASE("every function of the driver's header is there") {
  // A real driver can be older than the header.
  if (dlsym(RTLD_DEFAULT, "simcu_used_bytes") == nullptr) return;
  std::ifstream file(ALLOCMARK_CUDA_HEADER);
  REQUIRE(file);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::regex declaration("CUDAAPI\\s+(cu[A-Z]\\w*)\\s*\\(");
  const std::regex renaming(
      "define\\s+(cu[A-Z]\\w*)\\s+(?:__CUDA_API_PT[DS][SZ]\\()?(cu[A-Z]\\w*)");
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) {
    names.insert((*at)[1]);
  }
  for (std::sregex_iterator at(text.begin(), text.end(), renaming), end; at != end; ++at) {
    names.insert((*at)[2]);
  }
  CHECK(names.size() > 400);
  std::string missing;
  for (const std::string& name : names) {
    if (dlsym(libcuda(), name.c_str()) == nullptr) missing += name + " ";
  }
  CHECK(missing.empty());
  for (const char* name : {"cuMemcpyHtoD_v2_ptds", "cuMemAllocAsync_ptsz", "cuGetExportTable"}) {
    CAPTURE(name);
    CHECK(dlsym(libcuda(), name) != nullptr);
  }
}

TEST_CASE("cuGetProcAddress knows every version of a function up to the driver's") {
  int driver_version = 0;
  REQUIRE(cudaDriverGetVersion(&driver_version) == cudaSuccess);
  for (const int version : {2000, 3020, 6050, 12000, driver_version}) {
    CAPTURE(version);
    const Lookup found = look_up("cuInit", version);
    CHECK(found.result == CUDA_SUCCESS);
    CHECK(found.function != nullptr);
    CHECK(found.query == CU_GET_PROC_ADDRESS_SUCCESS);
  }
  for (const int version : {driver_version + 20, 99000}) {
    CAPTURE(version);
    CHECK(look_up("cuInit", version).result == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(look_up("cuMemAlloc", 2000).function == dlsym(libcuda(), "cuMemAlloc"));
  CHECK(look_up("cuMemAlloc", 3020).function == dlsym(libcuda(), "cuMemAlloc_v2"));
  CHECK(look_up("cuMemAlloc", 3020).function != look_up("cuMemAlloc", 2000).function);
  CHECK(look_up("cuMemAllocAsync", 11010).query == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  CHECK(look_up("cuMemAllocAsync", 11010).result == CUDA_SUCCESS);
  CHECK(look_up("cuMemAllocAsync", 11010).function == nullptr);
  CHECK(look_up("cuNope", 12000).query == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  CHECK(look_up("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM).function ==
        dlsym(libcuda(), "cuMemcpyHtoD_v2_ptds"));
}

TEST_CASE("a thread's contexts are a stack") {
  DRIVER(cuInit);
  DRIVER(cuCtxCreate);
  DRIVER(cuCtxDestroy);
  DRIVER(cuCtxPushCurrent);
  DRIVER(cuCtxPopCurrent);
  DRIVER(cuCtxSetCurrent);
  DRIVER(cuCtxGetDevice);
  DRIVER(cuDevicePrimaryCtxRetain);
  DRIVER(cuDevicePrimaryCtxRelease);
  REQUIRE(cuInit_found(0) == CUDA_SUCCESS);
  CUcontext primary = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain_found(&primary, 0) == CUDA_SUCCESS);
  on_new_thread([&] {
    CHECK(current_context() == nullptr);
    CUdevice device = -1;
    CHECK(cuCtxGetDevice_found(&device) == CUDA_ERROR_INVALID_CONTEXT);
    CUcontext popped = nullptr;
    CHECK(cuCtxPopCurrent_found(&popped) == CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE(cuCtxPushCurrent_found(primary) == CUDA_SUCCESS);
    CUcontext own = nullptr;
    REQUIRE(cuCtxCreate_found(&own, nullptr, 0, 0) == CUDA_SUCCESS);
    CHECK(own != primary);
    CHECK(current_context() == own);
    CHECK(cuCtxSetCurrent_found(nullptr) == CUDA_SUCCESS);
    CHECK(current_context() == primary);
    CHECK(cuCtxPushCurrent_found(own) == CUDA_SUCCESS);
    CHECK(cuCtxGetDevice_found(&device) == CUDA_SUCCESS);
    CHECK(device == 0);
    CHECK(cuCtxDestroy_found(own) == CUDA_SUCCESS);
    CHECK(current_context() == primary);
    CHECK(cuCtxPopCurrent_found(&popped) == CUDA_SUCCESS);
    CHECK(popped == primary);
    CHECK(current_context() == nullptr);
  });
  CHECK(cuDevicePrimaryCtxRelease_found(0) == CUDA_SUCCESS);
}

TEST_CASE("the runtime makes the primary context current, the driver's memory needs one") {
  DRIVER(cuCtxSetCurrent);
  DRIVER(cuMemAlloc);
  DRIVER(cuMemFree);
  DRIVER(cuDevicePrimaryCtxGetState);
  DRIVER(cuDevicePrimaryCtxRetain);
  DRIVER(cuDevicePrimaryCtxRelease);
  on_new_thread([&] {
    REQUIRE(cudaFree(nullptr) == cudaSuccess);
    CUcontext primary = nullptr;
    REQUIRE(cuDevicePrimaryCtxRetain_found(&primary, 0) == CUDA_SUCCESS);
    CHECK(current_context() == primary);
    CHECK(cuDevicePrimaryCtxRelease_found(0) == CUDA_SUCCESS);
    CHECK(cuCtxSetCurrent_found(nullptr) == CUDA_SUCCESS);
    CHECK(current_context() == nullptr);
    CUdeviceptr pointer = 0;
    CHECK(cuMemAlloc_found(&pointer, kMiB) == CUDA_ERROR_INVALID_CONTEXT);
    unsigned flags = 9;
    int active = 0;
    CHECK(cuDevicePrimaryCtxGetState_found(0, &flags, &active) == CUDA_SUCCESS);
    CHECK(active == 1);
    REQUIRE(cudaFree(nullptr) == cudaSuccess);
    CHECK(current_context() == primary);
    CHECK(cuMemAlloc_found(&pointer, kMiB) == CUDA_SUCCESS);
    CUdeviceptr nothing = 9;
    CHECK(cuMemAlloc_found(&nothing, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(nothing == 0);
    CHECK(cuMemFree_found(nothing) == CUDA_SUCCESS);
    CHECK(cuMemFree_found(pointer) == CUDA_SUCCESS);
    CHECK(cuMemFree_found(pointer) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cudaGetLastError() == cudaSuccess);
  });
}

TEST_CASE("the driver's memory is the runtime's, and its copies and fills work on it") {
  DRIVER(cuMemAlloc);
  DRIVER(cuMemFree);
  DRIVER(cuMemGetInfo);
  DRIVER(cuMemsetD8);
  DRIVER(cuMemsetD16);
  DRIVER(cuMemsetD32);
  DRIVER(cuMemsetD2D8);
  DRIVER(cuMemcpyHtoD);
  DRIVER(cuMemcpyDtoH);
  DRIVER(cuMemcpyDtoD);
  DRIVER(cuMemcpy2D);
  DRIVER(cuPointerGetAttribute);
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  std::size_t free_before = 0;
  std::size_t total = 0;
  REQUIRE(cuMemGetInfo_found(&free_before, &total) == CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  REQUIRE(cuMemAlloc_found(&pointer, 4 * kMiB) == CUDA_SUCCESS);
  CHECK(conformance::free_bytes() == free_before - 4 * kMiB);
  cudaPointerAttributes attributes{};
  CHECK(cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(pointer)) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  std::size_t range_bytes = 0;
  CHECK(cuPointerGetAttribute_found(&range_bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer + 9) ==
        CUDA_SUCCESS);
  CHECK(range_bytes == 4 * kMiB);
  int unknown = 0;
  CHECK(cuPointerGetAttribute_found(&unknown, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    reinterpret_cast<CUdeviceptr>(&unknown)) ==
        CUDA_ERROR_INVALID_VALUE);

  std::array<unsigned char, 16> host{};
  CHECK(cuMemsetD8_found(pointer, 7, 16) == CUDA_SUCCESS);
  CHECK(cuMemsetD16_found(pointer + 2, 0x0201, 2) == CUDA_SUCCESS);
  CHECK(cuMemsetD32_found(pointer + 8, 0x06050403, 1) == CUDA_SUCCESS);
  CHECK(cuMemsetD32_found(pointer + 2, 1, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyDtoH_found(host.data(), pointer, host.size()) == CUDA_SUCCESS);
  CHECK(host == std::array<unsigned char, 16>{7, 7, 1, 2, 1, 2, 7, 7, 3, 4, 5, 6, 7, 7, 7, 7});
  CHECK(cuMemsetD2D8_found(pointer, 8, 9, 2, 2) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoD_found(pointer + kMiB, pointer, 16) == CUDA_SUCCESS);
  CHECK(cudaMemcpy(host.data(), reinterpret_cast<void*>(pointer + kMiB), 16, cudaMemcpyDefault) ==
        cudaSuccess);
  CHECK(host == std::array<unsigned char, 16>{9, 9, 1, 2, 1, 2, 7, 7, 9, 9, 5, 6, 7, 7, 7, 7});
  host.fill(5);
  CHECK(cuMemcpyHtoD_found(pointer, host.data(), 4) == CUDA_SUCCESS);
  CUDA_MEMCPY2D columns{};
  columns.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  columns.srcDevice = pointer;
  columns.srcPitch = 8;
  columns.dstMemoryType = CU_MEMORYTYPE_HOST;
  columns.dstHost = host.data();
  columns.dstPitch = 2;
  columns.WidthInBytes = 2;
  columns.Height = 2;
  CHECK(cuMemcpy2D_found(&columns) == CUDA_SUCCESS);
  CHECK(host[1] == 5);
  CHECK(host[2] == 9);
  CHECK(cudaFree(reinterpret_cast<void*>(pointer)) == cudaSuccess);
  CHECK(cuMemFree_found(pointer) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("the driver tells the size of a block as it was asked for") {
  DRIVER(cuMemAlloc);
  DRIVER(cuMemFree);
  DRIVER(cuMemGetAddressRange);
  DRIVER(cuPointerGetAttribute);
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  for (const std::size_t size_bytes : {608UL, 4872UL, 1358511UL, 25492981UL}) {
    CUdeviceptr pointer = 0;
    REQUIRE(cuMemAlloc_found(&pointer, size_bytes) == CUDA_SUCCESS);
    CUdeviceptr begin = 0;
    std::size_t range_bytes = 0;
    CHECK(cuMemGetAddressRange_found(&begin, &range_bytes, pointer + size_bytes / 2) ==
          CUDA_SUCCESS);
    CHECK(begin == pointer);
    CHECK(range_bytes == size_bytes);
    range_bytes = 0;
    CHECK(cuPointerGetAttribute_found(&range_bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer) ==
          CUDA_SUCCESS);
    CHECK(range_bytes == size_bytes);
    CHECK(cuMemFree_found(pointer) == CUDA_SUCCESS);
    CHECK(cuMemGetAddressRange_found(&begin, &range_bytes, pointer) == CUDA_ERROR_NOT_FOUND);
  }
}

TEST_CASE("the driver's streams, events and pools are the runtime's") {
  DRIVER(cuStreamCreate);
  DRIVER(cuStreamDestroy);
  DRIVER(cuStreamQuery);
  DRIVER(cuStreamGetCtx);
  DRIVER(cuEventCreate);
  DRIVER(cuEventRecord);
  DRIVER(cuEventDestroy);
  DRIVER(cuMemPoolCreate);
  DRIVER(cuMemPoolDestroy);
  DRIVER(cuMemPoolGetAttribute);
  DRIVER(cuMemAllocFromPoolAsync);
  DRIVER(cuMemFreeAsync);
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  CUstream stream = nullptr;
  CUevent event = nullptr;
  REQUIRE(cuStreamCreate_found(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cuEventCreate_found(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  const conformance::BusyWork work;
  work.start(stream);
  CHECK(cuEventRecord_found(event, stream) == CUDA_SUCCESS);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cuStreamQuery_found(stream) == CUDA_ERROR_NOT_READY);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  CUcontext context = nullptr;
  CHECK(cuStreamGetCtx_found(stream, &context) == CUDA_SUCCESS);
  CHECK(context == current_context());

  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  CUmemoryPool pool = nullptr;
  REQUIRE(cuMemPoolCreate_found(&pool, &properties) == CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  CHECK(cuMemAllocFromPoolAsync_found(&pointer, kMiB, pool, stream) == CUDA_SUCCESS);
  std::uint64_t used_bytes = 0;
  CHECK(cuMemPoolGetAttribute_found(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used_bytes) ==
        CUDA_SUCCESS);
  CHECK(used_bytes == kMiB);
  CHECK(cuMemFreeAsync_found(pointer, stream) == CUDA_SUCCESS);
  CHECK(cuMemPoolGetAttribute_found(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used_bytes) ==
        CUDA_SUCCESS);
  CHECK(used_bytes == 0);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cuMemPoolDestroy_found(pool) == CUDA_SUCCESS);
  CHECK(cuEventDestroy_found(event) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy_found(stream) == CUDA_SUCCESS);
}

TEST_CASE("stream 0 is the thread's own in the functions for per-thread default streams") {
  using Query = CUresult (*)(CUstream);
  const auto query_per_thread = symbol<Query>("cuStreamQuery_ptsz");
  const auto query = symbol<Query>("cuStreamQuery");
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  cudaStream_t other = nullptr;  // not ordered with the legacy stream
  REQUIRE(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
  const conformance::BusyWork work;
  work.start(cudaStreamPerThread);
  CHECK(query_per_thread(nullptr) == CUDA_ERROR_NOT_READY);
  CHECK(query(other) == CUDA_SUCCESS);
  on_new_thread([&] {
    CHECK(query(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(query_per_thread(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE(cudaFree(nullptr) == cudaSuccess);
    CHECK(query_per_thread(nullptr) == CUDA_SUCCESS);
  });
  CHECK(cudaStreamDestroy(other) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("a memory handle tells what it was asked for") {
  DRIVER(cuMemCreate);
  DRIVER(cuMemRelease);
  DRIVER(cuMemGetAllocationPropertiesFromHandle);
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  for (const unsigned char compression :
       {CU_MEM_ALLOCATION_COMP_NONE, CU_MEM_ALLOCATION_COMP_GENERIC}) {
    CUmemAllocationProp wanted{};
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    wanted.allocFlags.compressionType = compression;
    CUmemGenericAllocationHandle handle = 0;
    REQUIRE(cuMemCreate_found(&handle, 2 * kMiB, &wanted, 0) == CUDA_SUCCESS);
    CUmemAllocationProp got{};
    CHECK(cuMemGetAllocationPropertiesFromHandle_found(&got, handle) == CUDA_SUCCESS);
    CHECK(got.allocFlags.compressionType == compression);
    CHECK(got.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    CHECK(cuMemRelease_found(handle) == CUDA_SUCCESS);
  }
}

TEST_CASE("small functions that programs of memory call") {
  cudaPitchedPtr pitched{};
  CHECK(cudaMalloc3D(&pitched, {100, 4, 4}) == cudaSuccess);
  CHECK(pitched.pitch >= 100);
  CHECK(cudaMemset(pitched.ptr, 0, pitched.pitch * 16) == cudaSuccess);
  CHECK(cudaFree(pitched.ptr) == cudaSuccess);
  CHECK(cudaCtxResetPersistingL2Cache() == cudaSuccess);
  std::size_t heap_bytes = 0;
  CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 * kMiB) == cudaSuccess);
  CHECK(cudaDeviceGetLimit(&heap_bytes, cudaLimitMallocHeapSize) == cudaSuccess);
  CHECK(heap_bytes == 16 * kMiB);

  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  cudaStream_t seen = nullptr;
  CHECK(cudaStreamAddCallback(
            stream,
            [](cudaStream_t its, cudaError_t error, void* data) {
              if (error == cudaSuccess) *static_cast<cudaStream_t*>(data) = its;
            },
            &seen, 0) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(seen == stream);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
#if CUDART_VERSION >= 13000
  cudaMemLocation device{};
  device.type = cudaMemLocationTypeDevice;
  cudaMemPool_t by_location = nullptr;
  cudaMemPool_t by_device = nullptr;
  CHECK(cudaMemGetDefaultMemPool(&by_location, &device, cudaMemAllocationTypePinned) ==
        cudaSuccess);
  CHECK(cudaDeviceGetDefaultMemPool(&by_device, 0) == cudaSuccess);
  CHECK(by_location == by_device);
#endif
}
