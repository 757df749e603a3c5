// Memory, pools, streams, events, pointers and errors of the CUDA runtime, as an H200 (driver
// 580.159, CUDA 13.0) answers. Expected values are what the GPU answered, not what simcuda
// computes.
#include <cuda_runtime_api.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/conformance.h"

namespace {

using conformance::free_bytes;
using conformance::kMiB;

constexpr const char* kOk = "cudaSuccess";
constexpr const char* kInvalidValue = "cudaErrorInvalidValue";
constexpr const char* kNoHandle = "cudaErrorInvalidResourceHandle";

// A value that the enumeration does not have, as a careless caller may pass.
template <class Enum>
Enum out_of_range(int value) {
  Enum result;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

cudaMemPool_t default_pool() {
  cudaMemPool_t pool = nullptr;
  cudaDeviceGetDefaultMemPool(&pool, 0);
  return pool;
}

std::uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr id) {
  std::uint64_t value = 0;
  cudaMemPoolGetAttribute(pool, id, &value);
  return value;
}

}  // namespace

TEST_CASE("cudaMalloc and cudaFree answer as the GPU does") {
  void* block = nullptr;
  REQUIRE_ANSWER(cudaMalloc(&block, 0), kOk);
  CHECK(block == nullptr);
  REQUIRE_ANSWER(cudaMalloc(nullptr, 512), kInvalidValue);
  REQUIRE_ANSWER(cudaFree(nullptr), kOk);
  REQUIRE_ANSWER(cudaFree(reinterpret_cast<void*>(0x1234)), kInvalidValue);
  block = reinterpret_cast<void*>(0x77);
  REQUIRE_ANSWER(cudaMalloc(&block, std::uint64_t{1} << 40), "cudaErrorMemoryAllocation");
  CHECK(block == nullptr);
  REQUIRE_ANSWER(cudaMalloc(&block, 4096), kOk);
  REQUIRE_ANSWER(cudaFree(static_cast<char*>(block) + 512), kInvalidValue);
  REQUIRE_ANSWER(cudaFree(block), kOk);
  REQUIRE_ANSWER(cudaFree(block), kInvalidValue);
}

TEST_CASE("the last error stays until it is asked for, and not ready is none") {
  void* block = nullptr;
  CHECK(cudaMalloc(&block, std::uint64_t{1} << 40) == cudaErrorMemoryAllocation);
  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);

  const conformance::BusyWork busy;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  busy.start(stream);
  REQUIRE(cudaEventRecord(event, stream) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(cudaEventSynchronize(event) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
  cudaEventDestroy(event);
  cudaStreamDestroy(stream);
}

TEST_CASE("cudaFree waits for running work, cudaMalloc does not") {
  const conformance::BusyWork busy;
  cudaStream_t stream = nullptr;
  void* block = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  busy.start(stream);
  REQUIRE(cudaMalloc(&block, 2 * kMiB) == cudaSuccess);
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  CHECK(cudaFree(block) == cudaSuccess);
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
  cudaStreamDestroy(stream);
}

TEST_CASE("device memory is charged in whole pages") {
  struct Row {
    std::uint64_t size_bytes;
    std::uint64_t taken_bytes;
  };
  // Each row on an empty heap, so that small requests take a slab.
  constexpr std::array<Row, 9> kRows = {{{1, 2097152},
                                         {512, 2097152},
                                         {1048576, 2097152},
                                         {1048577, 2097152},
                                         {2097152, 2097152},
                                         {2097153, 4194304},
                                         {20971521, 23068672},
                                         {104857600, 104857600},
                                         {1073741825, 1075838976}}};
  for (const Row& row : kRows) {
    const std::uint64_t before = free_bytes();
    void* block = nullptr;
    REQUIRE(cudaMalloc(&block, row.size_bytes) == cudaSuccess);
    CHECK(before - free_bytes() == row.taken_bytes);
    REQUIRE(cudaFree(block) == cudaSuccess);
    CHECK(before == free_bytes());
  }
}

TEST_CASE("pools grow in steps of 32 MiB and shrink at synchronisation") {
  struct Row {
    std::uint64_t size_bytes;
    std::uint64_t reserved_bytes;
  };
  constexpr std::array<Row, 5> kRows = {{{512, 33554432},
                                         {1048576, 33554432},
                                         {33554432, 33554432},
                                         {33554433, 67108864},
                                         {104857600, 134217728}}};
  cudaMemPool_t pool = default_pool();
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  for (const Row& row : kRows) {
    const std::uint64_t before = free_bytes();
    const std::uint64_t used_before = attribute(pool, cudaMemPoolAttrUsedMemCurrent);
    void* block = nullptr;
    REQUIRE(cudaMallocAsync(&block, row.size_bytes, nullptr) == cudaSuccess);
    CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) - used_before == row.size_bytes);
    CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == row.reserved_bytes);
    CHECK(before - free_bytes() == row.reserved_bytes);
    REQUIRE(cudaFreeAsync(block, nullptr) == cudaSuccess);
    CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == row.reserved_bytes);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
  }
}

TEST_CASE("a release threshold keeps memory, trimming gives it back") {
  cudaMemPool_t pool = default_pool();
  std::uint64_t threshold = ~std::uint64_t{0};
  REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold) ==
          cudaSuccess);
  void* block = nullptr;
  REQUIRE(cudaMallocAsync(&block, 100 * kMiB, nullptr) == cudaSuccess);
  REQUIRE(cudaFreeAsync(block, nullptr) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 128 * kMiB);
  REQUIRE(cudaMemPoolTrimTo(pool, 64 * kMiB) == cudaSuccess);
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 64 * kMiB);
  threshold = 0;
  REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold) ==
          cudaSuccess);
  REQUIRE(cudaMemPoolTrimTo(pool, 0) == cudaSuccess);
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
  std::uint64_t high = 1;
  REQUIRE_ANSWER(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &high),
                 kInvalidValue);
  high = 0;
  REQUIRE_ANSWER(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &high), kOk);
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemHigh) == 0);
  REQUIRE_ANSWER(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &high),
                 kInvalidValue);
}

TEST_CASE("stream-ordered calls refuse what the GPU refuses") {
  void* block = nullptr;
  REQUIRE_ANSWER(cudaMallocAsync(&block, 0, nullptr), kOk);
  CHECK(block == nullptr);
  REQUIRE_ANSWER(cudaFreeAsync(nullptr, nullptr), kOk);
  REQUIRE_ANSWER(cudaFreeAsync(reinterpret_cast<void*>(0x1234), nullptr), kInvalidValue);
  REQUIRE_ANSWER(cudaMallocAsync(&block, std::uint64_t{1} << 45, nullptr),
                 "cudaErrorMemoryAllocation");
  REQUIRE_ANSWER(cudaMallocAsync(&block, 4096, nullptr), kOk);
  REQUIRE_ANSWER(cudaFreeAsync(block, nullptr), kOk);
  REQUIRE_ANSWER(cudaFreeAsync(block, nullptr), kInvalidValue);
  REQUIRE_ANSWER(cudaFree(block), kInvalidValue);
  REQUIRE_ANSWER(cudaMallocAsync(&block, 4096, nullptr), kOk);
  REQUIRE_ANSWER(cudaFreeAsync(static_cast<char*>(block) + 512, nullptr), kInvalidValue);
  REQUIRE_ANSWER(cudaFree(block), kOk);
  REQUIRE_ANSWER(cudaFree(block), kInvalidValue);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("a block of cudaMalloc may be freed in a stream") {
  const std::uint64_t before = free_bytes();
  void* block = nullptr;
  REQUIRE_ANSWER(cudaMalloc(&block, 20 * kMiB), kOk);
  REQUIRE_ANSWER(cudaFreeAsync(static_cast<char*>(block) + 512, nullptr), kInvalidValue);
  REQUIRE_ANSWER(cudaFreeAsync(block, nullptr), kOk);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(free_bytes() == before);
  REQUIRE_ANSWER(cudaFree(block), kInvalidValue);
}

TEST_CASE("pools are created for device memory only, and the default one stays") {
  cudaMemPool_t pool = default_pool();
  cudaMemPool_t current = nullptr;
  REQUIRE(cudaDeviceGetMemPool(&current, 0) == cudaSuccess);
  CHECK(current == pool);
  REQUIRE_ANSWER(cudaMemPoolDestroy(pool), kInvalidValue);
  cudaMemPoolProps properties{};
  REQUIRE_ANSWER(cudaMemPoolCreate(&current, &properties), kInvalidValue);
  properties.allocType = cudaMemAllocationTypePinned;
  REQUIRE_ANSWER(cudaMemPoolCreate(&current, &properties), kInvalidValue);
  properties.location.type = cudaMemLocationTypeDevice;
  REQUIRE_ANSWER(cudaMemPoolCreate(&current, &properties), kOk);
  REQUIRE_ANSWER(cudaMemPoolDestroy(current), kOk);
}

TEST_CASE("streams and events refuse bad handles and flags") {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  cudaEvent_t timed = nullptr;
  cudaEvent_t never = nullptr;
  int priority = 1;
  REQUIRE_ANSWER(cudaStreamCreateWithFlags(&stream, 77), kInvalidValue);
  REQUIRE_ANSWER(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -5), kOk);
  REQUIRE_ANSWER(cudaStreamGetPriority(stream, &priority), kOk);
  CHECK(priority == -5);
  REQUIRE_ANSWER(cudaStreamDestroy(nullptr), kNoHandle);
  REQUIRE_ANSWER(cudaEventCreateWithFlags(&event, 0x80), kInvalidValue);
  REQUIRE_ANSWER(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), kOk);
  REQUIRE_ANSWER(cudaEventCreate(&timed), kOk);
  REQUIRE_ANSWER(cudaEventCreate(&never), kOk);
  REQUIRE_ANSWER(cudaEventQuery(event), kOk);
  REQUIRE_ANSWER(cudaEventRecord(nullptr, stream), kNoHandle);
  REQUIRE_ANSWER(cudaEventQuery(nullptr), kNoHandle);
  REQUIRE_ANSWER(cudaEventDestroy(nullptr), kNoHandle);
  REQUIRE_ANSWER(cudaStreamWaitEvent(stream, nullptr, 0), kNoHandle);
  REQUIRE_ANSWER(cudaStreamWaitEvent(stream, event, 5), kInvalidValue);
  float milliseconds = -1;
  REQUIRE_ANSWER(cudaEventRecord(timed, stream), kOk);
  REQUIRE_ANSWER(cudaEventElapsedTime(&milliseconds, timed, never), kNoHandle);
  REQUIRE_ANSWER(cudaEventRecord(event, stream), kOk);
  REQUIRE_ANSWER(cudaStreamSynchronize(stream), kOk);
  REQUIRE_ANSWER(cudaEventElapsedTime(&milliseconds, event, timed), kNoHandle);
  REQUIRE_ANSWER(cudaEventRecord(never, stream), kOk);
  REQUIRE_ANSWER(cudaStreamSynchronize(stream), kOk);
  REQUIRE_ANSWER(cudaEventElapsedTime(&milliseconds, timed, never), kOk);
  CHECK(milliseconds >= 0);
  REQUIRE_ANSWER(cudaEventDestroy(event), kOk);
  REQUIRE_ANSWER(cudaEventDestroy(timed), kOk);
  REQUIRE_ANSWER(cudaEventDestroy(never), kOk);
  REQUIRE_ANSWER(cudaStreamDestroy(stream), kOk);
}

TEST_CASE("devices outside the range are refused") {
  int value = 0;
  cudaDeviceProp properties;
  REQUIRE_ANSWER(cudaSetDevice(99), "cudaErrorInvalidDevice");
  REQUIRE_ANSWER(cudaSetDevice(-1), "cudaErrorInvalidDevice");
  REQUIRE_ANSWER(cudaGetDevice(nullptr), kInvalidValue);
  REQUIRE_ANSWER(cudaGetDeviceProperties(&properties, 99), "cudaErrorInvalidDevice");
  REQUIRE_ANSWER(cudaDeviceGetAttribute(&value, out_of_range<cudaDeviceAttr>(9999), 0),
                 kInvalidValue);
  REQUIRE_ANSWER(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99), "cudaErrorInvalidDevice");
  REQUIRE_ANSWER(cudaGetDeviceProperties(&properties, 0), kOk);
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(properties.totalGlobalMem == total);
  CHECK(properties.warpSize == 32);
}

TEST_CASE("bytes written with one call are read with another") {
  std::array<char, 8192> host{};
  host.fill(3);
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, host.size()) == cudaSuccess);
  REQUIRE_ANSWER(cudaMemcpy(block, host.data(), host.size(), cudaMemcpyHostToDevice), kOk);
  REQUIRE_ANSWER(cudaMemset(block, 7, 100), kOk);
  REQUIRE_ANSWER(cudaMemcpy(host.data(), block, host.size(), cudaMemcpyDefault), kOk);
  CHECK(host[99] == 7);
  CHECK(host[100] == 3);
  std::array<char, 3> corner{};
  REQUIRE_ANSWER(cudaMemcpy2D(corner.data(), 1, static_cast<char*>(block) + 99, 1, 1, 3,
                              cudaMemcpyDeviceToHost),
                 kOk);
  CHECK(corner == std::array<char, 3>{7, 3, 3});
  REQUIRE_ANSWER(cudaMemcpy(host.data(), block, 2 * kMiB + 1, cudaMemcpyDeviceToHost),
                 kInvalidValue);
  REQUIRE_ANSWER(cudaMemset(block, 0, 2 * kMiB + 1), kInvalidValue);
  REQUIRE_ANSWER(cudaMemset(reinterpret_cast<void*>(0x1234), 0, 4), kInvalidValue);
  REQUIRE_ANSWER(cudaMemset(nullptr, 0, 0), kOk);
  REQUIRE_ANSWER(cudaMemcpy(block, nullptr, 4, cudaMemcpyHostToDevice), kInvalidValue);
  REQUIRE_ANSWER(cudaMemcpy(block, host.data(), 4, out_of_range<cudaMemcpyKind>(9)),
                 "cudaErrorInvalidMemcpyDirection");
  REQUIRE_ANSWER(cudaMemcpy(block, host.data(), 4, cudaMemcpyDeviceToHost), kInvalidValue);
  REQUIRE(cudaFree(block) == cudaSuccess);
}

TEST_CASE("pointers say what they are") {
  cudaPointerAttributes attributes{};
  void* block = nullptr;
  void* pinned = nullptr;
  int local = 0;
  REQUIRE(cudaMalloc(&block, 8192) == cudaSuccess);
  REQUIRE_ANSWER(cudaPointerGetAttributes(&attributes, static_cast<char*>(block) + 100), kOk);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.devicePointer == static_cast<void*>(static_cast<char*>(block) + 100));
  CHECK(attributes.hostPointer == nullptr);
  REQUIRE_ANSWER(cudaPointerGetAttributes(&attributes, &local), kOk);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  CHECK(attributes.device == -2);
  CHECK(attributes.hostPointer == &local);
  REQUIRE_ANSWER(cudaMallocHost(&pinned, 4096), kOk);
  REQUIRE_ANSWER(cudaPointerGetAttributes(&attributes, static_cast<char*>(pinned) + 8), kOk);
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK(attributes.hostPointer == static_cast<void*>(static_cast<char*>(pinned) + 8));
  void* mapped = nullptr;
  REQUIRE_ANSWER(cudaHostGetDevicePointer(&mapped, pinned, 0), kOk);
  CHECK(mapped == pinned);
  REQUIRE_ANSWER(cudaHostGetDevicePointer(&mapped, &local, 0), kInvalidValue);
  REQUIRE_ANSWER(cudaFreeHost(&local), kInvalidValue);
  REQUIRE_ANSWER(cudaFreeHost(nullptr), kOk);
  REQUIRE_ANSWER(cudaFree(pinned), kInvalidValue);
  REQUIRE_ANSWER(cudaFreeHost(block), kInvalidValue);
  REQUIRE_ANSWER(cudaFreeHost(pinned), kOk);
  REQUIRE_ANSWER(cudaFreeHost(pinned), kInvalidValue);
  REQUIRE(cudaFree(block) == cudaSuccess);
}
