// Several simulated devices in one process: each has its own heap, streams and clock of work, and
// peer access follows the rules that CUDA documents.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/control.h"

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kMillisecond = 1'000'000;

// Read by the first call, which comes later.
const bool three_devices = setenv("SIMCUDA_DEVICES", "3", 1) == 0;

class OnDevice {
 public:
  explicit OnDevice(int index) { REQUIRE(cudaSetDevice(index) == cudaSuccess); }
  ~OnDevice() { cudaSetDevice(0); }
};

std::uint64_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  return free;
}

// A block on a device, whose first byte is `value`.
void* block_on(int device, unsigned char value) {
  const OnDevice on(device);
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 4 * kMiB) == cudaSuccess);
  std::memset(SIMCU(simcu_view)(block, 4 * kMiB), value, 4 * kMiB);
  return block;
}

unsigned char first_byte(const void* block) {
  return *static_cast<unsigned char*>(SIMCU(simcu_view)(block, 1));
}

// Takes the last error back, which a refused call has left.
cudaError_t refused(cudaError_t error) {
  CHECK(cudaGetLastError() == error);
  return error;
}

}  // namespace

TEST_CASE("a thread's device decides whose memory is taken, and each device has its own") {
  int count = 0;
  REQUIRE(cudaGetDeviceCount(&count) == cudaSuccess);
  REQUIRE(count == 3);
  std::array<std::uint64_t, 3> before{};
  for (int i = 0; i < 3; ++i) {
    const OnDevice on(i);
    before[static_cast<std::size_t>(i)] = free_bytes();
  }
  void* block = block_on(1, 0);
  const std::array<std::uint64_t, 3> taken = {0, 4 * kMiB, 0};
  for (int i = 0; i < 3; ++i) {
    const OnDevice on(i);
    const auto at = static_cast<std::size_t>(i);
    CHECK(before[at] - free_bytes() == taken[at]);
  }
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, block) == cudaSuccess);
  CHECK(attributes.device == 1);
  // A free finds the device by the pointer.
  CHECK(cudaFree(block) == cudaSuccess);
  const OnDevice on(1);
  CHECK(free_bytes() == before[1]);
  // Another thread begins on device 0.
  int other = -1;
  std::thread([&] { (void)cudaGetDevice(&other); }).join();
  CHECK(other == 0);
  CHECK(refused(cudaSetDevice(3)) == cudaErrorInvalidDevice);
}

TEST_CASE("work on one device does not hold up another") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(SIMCU(simcu_launch)(stream, 50 * kMillisecond) == 0);
  const std::uint64_t before_ns = SIMCU(simcu_thread_clock)()->modelled_ns;
  std::uint64_t end_ns = 0;
  {
    const OnDevice on(1);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(SIMCU(simcu_device_end)(&end_ns) == 0);
    CHECK(end_ns < before_ns + kMillisecond);
    REQUIRE(SIMCU(simcu_stream_end)(stream, &end_ns) == 0);  // the stream says whose it is
    CHECK(end_ns >= 50 * kMillisecond);
  }
  std::uint64_t device_end_ns = 0;
  REQUIRE(SIMCU(simcu_device_end)(&device_end_ns) == 0);
  CHECK(device_end_ns == end_ns);
  CHECK(SIMCU(simcu_thread_clock)()->modelled_ns - before_ns < 10 * kMillisecond);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(SIMCU(simcu_thread_clock)()->modelled_ns - before_ns >= 50 * kMillisecond);
  cudaStreamDestroy(stream);
}

TEST_CASE("peer access is given once, in one direction, and taken back") {
  int can = -1;
  CHECK(cudaDeviceCanAccessPeer(&can, 0, 1) == cudaSuccess);
  CHECK(can == 1);
  CHECK(cudaDeviceCanAccessPeer(&can, 1, 1) == cudaSuccess);
  CHECK(can == 0);
  CHECK(refused(cudaDeviceCanAccessPeer(&can, 0, 3)) == cudaErrorInvalidDevice);

  CHECK(refused(cudaDeviceEnablePeerAccess(1, 1)) == cudaErrorInvalidValue);
  CHECK(refused(cudaDeviceEnablePeerAccess(0, 0)) == cudaErrorInvalidDevice);
  CHECK(refused(cudaDeviceEnablePeerAccess(7, 0)) == cudaErrorInvalidDevice);
  CHECK(refused(cudaDeviceDisablePeerAccess(1)) == cudaErrorPeerAccessNotEnabled);
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
  CHECK(refused(cudaDeviceEnablePeerAccess(1, 0)) == cudaErrorPeerAccessAlreadyEnabled);
  {
    const OnDevice on(1);  // the other direction is another access
    CHECK(refused(cudaDeviceDisablePeerAccess(0)) == cudaErrorPeerAccessNotEnabled);
  }
  CHECK(cudaDeviceDisablePeerAccess(1) == cudaSuccess);
  CHECK(refused(cudaDeviceDisablePeerAccess(1)) == cudaErrorPeerAccessNotEnabled);

  int value = -1;
  CHECK(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 2) == cudaSuccess);
  CHECK(value == 1);
  CHECK(refused(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 2, 2)) ==
        cudaErrorInvalidDevice);
}

TEST_CASE("a peer copy moves bytes, takes the link's time, and asks for the right devices") {
  void* from = block_on(0, 7);
  void* to = block_on(2, 1);
  const std::uint64_t begin_ns = SIMCU(simcu_thread_clock)()->modelled_ns;
  REQUIRE(cudaMemcpyPeerAsync(to, 2, from, 0, 4 * kMiB, nullptr) == cudaSuccess);
  CHECK(first_byte(to) == 7);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  // 10 us and 4 MiB at 400 GB/s.
  const std::uint64_t took_ns = SIMCU(simcu_thread_clock)()->modelled_ns - begin_ns;
  CHECK(took_ns >= 10'000 + 10'485);
  CHECK(took_ns < 200'000);
  CHECK(refused(cudaMemcpyPeerAsync(to, 1, from, 0, kMiB, nullptr)) == cudaErrorInvalidValue);
  CHECK(refused(cudaMemcpyPeerAsync(to, 3, from, 0, kMiB, nullptr)) == cudaErrorInvalidDevice);
  CHECK(cudaMemcpyPeerAsync(nullptr, 2, nullptr, 0, 0, nullptr) == cudaSuccess);
  cudaFree(from);
  cudaFree(to);
}

TEST_CASE("a copy that is no stream's waits for both devices, and both wait for it") {
  void* from = block_on(0, 9);
  void* to = block_on(1, 1);
  {
    const OnDevice on(1);
    REQUIRE(SIMCU(simcu_launch)(nullptr, 30 * kMillisecond) == 0);
  }
  const std::uint64_t begin_ns = SIMCU(simcu_thread_clock)()->modelled_ns;
  REQUIRE(cudaMemcpyPeer(to, 1, from, 0, 4 * kMiB) == cudaSuccess);
  CHECK(first_byte(to) == 9);
  // Device 0 had nothing to do of its own.
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(SIMCU(simcu_thread_clock)()->modelled_ns - begin_ns > 29 * kMillisecond);
  cudaFree(from);
  cudaFree(to);
}

TEST_CASE("a pool's memory is opened to a peer, and closed again") {
  cudaMemPool_t pool = nullptr;
  REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
  cudaMemAccessDesc wanted{};
  wanted.location = {.type = cudaMemLocationTypeDevice, .id = 1};
  cudaMemAccessFlags flags = cudaMemAccessFlagsProtReadWrite;
  REQUIRE(cudaMemPoolGetAccess(&flags, pool, &wanted.location) == cudaSuccess);
  CHECK(flags == cudaMemAccessFlagsProtNone);
  wanted.flags = cudaMemAccessFlagsProtReadWrite;
  REQUIRE(cudaMemPoolSetAccess(pool, &wanted, 1) == cudaSuccess);
  REQUIRE(cudaMemPoolGetAccess(&flags, pool, &wanted.location) == cudaSuccess);
  CHECK(flags == cudaMemAccessFlagsProtReadWrite);
  wanted.flags = cudaMemAccessFlagsProtNone;
  REQUIRE(cudaMemPoolSetAccess(pool, &wanted, 1) == cudaSuccess);
  REQUIRE(cudaMemPoolGetAccess(&flags, pool, &wanted.location) == cudaSuccess);
  CHECK(flags == cudaMemAccessFlagsProtNone);
}

namespace {

// A pool of device 0, as another process would see it.
struct SharedPool {
  SharedPool() {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    properties.location = {.type = cudaMemLocationTypeDevice, .id = 0};
    int file = -1;
    REQUIRE(cudaMemPoolCreate(&pool, &properties) == cudaSuccess);
    REQUIRE(cudaMemPoolExportToShareableHandle(&file, pool, cudaMemHandleTypePosixFileDescriptor,
                                               0) == cudaSuccess);
    REQUIRE(cudaMemPoolImportFromShareableHandle(
                &imported, reinterpret_cast<void*>(static_cast<std::uintptr_t>(file)),
                cudaMemHandleTypePosixFileDescriptor, 0) == cudaSuccess);
    close(file);
  }
  ~SharedPool() {
    cudaMemPoolDestroy(imported);
    cudaMemPoolDestroy(pool);
  }
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;
  cudaMemPool_t pool = nullptr;
  cudaMemPool_t imported = nullptr;
};

}  // namespace

TEST_CASE("an imported pool opens blocks of the pool that was exported alone") {
  const SharedPool one;
  const SharedPool two;
  void* block = nullptr;
  void* opened = nullptr;
  cudaMemPoolPtrExportData data{};
  REQUIRE(cudaMallocFromPoolAsync(&block, kMiB, one.pool, nullptr) == cudaSuccess);
  REQUIRE(cudaMemPoolExportPointer(&data, block) == cudaSuccess);
  CHECK(refused(cudaMemPoolImportPointer(&opened, two.imported, &data)) == cudaErrorInvalidValue);
  REQUIRE(cudaMemPoolImportPointer(&opened, one.imported, &data) == cudaSuccess);
  REQUIRE(cudaFreeAsync(opened, nullptr) == cudaSuccess);
  REQUIRE(cudaFreeAsync(block, nullptr) == cudaSuccess);
}

TEST_CASE("an imported pool is open to its own device alone, until others are given access") {
  const SharedPool shared;
  const auto access_of = [&](int device) {
    cudaMemLocation location = {.type = cudaMemLocationTypeDevice, .id = device};
    cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
    CHECK(cudaMemPoolGetAccess(&flags, shared.imported, &location) == cudaSuccess);
    return flags;
  };
  CHECK(access_of(0) == cudaMemAccessFlagsProtReadWrite);
  CHECK(access_of(1) == cudaMemAccessFlagsProtNone);
  cudaMemAccessDesc wanted{};
  wanted.location = {.type = cudaMemLocationTypeDevice, .id = 1};
  wanted.flags = cudaMemAccessFlagsProtReadWrite;
  REQUIRE(cudaMemPoolSetAccess(shared.imported, &wanted, 1) == cudaSuccess);
  CHECK(access_of(1) == cudaMemAccessFlagsProtReadWrite);
}

TEST_CASE(
    "memory of a pool may be freed on a stream of another device, when that has come so far") {
  cudaMemPool_t pool = nullptr;
  REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
  cudaStream_t other = nullptr;
  {
    const OnDevice on(1);
    REQUIRE(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(SIMCU(simcu_launch)(other, 50 * kMillisecond) == 0);
  }
  void* block = nullptr;
  REQUIRE(cudaMallocAsync(&block, kMiB, nullptr) == cudaSuccess);
  REQUIRE(cudaFreeAsync(block, other) == cudaSuccess);
  // The other stream may still use it.
  void* second = nullptr;
  REQUIRE(cudaMallocAsync(&second, kMiB, nullptr) == cudaSuccess);
  CHECK(second != block);
  REQUIRE(cudaStreamSynchronize(other) == cudaSuccess);
  void* third = nullptr;
  REQUIRE(cudaMallocAsync(&third, kMiB, nullptr) == cudaSuccess);
  CHECK(third == block);
  REQUIRE(cudaFreeAsync(second, nullptr) == cudaSuccess);
  REQUIRE(cudaFreeAsync(third, nullptr) == cudaSuccess);
  std::uint64_t used_bytes = 1;
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used_bytes) == cudaSuccess);
  CHECK(used_bytes == 0);
  cudaStreamDestroy(other);
}

TEST_CASE("a pool may be used on streams of another device, in their order") {
  cudaMemPool_t pool = nullptr;
  REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
  std::array<cudaStream_t, 2> others{};
  {
    const OnDevice on(1);
    for (cudaStream_t& stream : others) {
      REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    }
  }
  void* block = nullptr;
  void* again = nullptr;
  void* elsewhere = nullptr;
  REQUIRE(cudaMallocFromPoolAsync(&block, kMiB, pool, others[0]) == cudaSuccess);
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, block) == cudaSuccess);
  CHECK(attributes.device == 0);
  REQUIRE(SIMCU(simcu_launch)(others[0], 50 * kMillisecond) == 0);
  REQUIRE(cudaFreeAsync(block, others[0]) == cudaSuccess);
  REQUIRE(cudaMallocFromPoolAsync(&elsewhere, kMiB, pool, others[1]) == cudaSuccess);
  CHECK(elsewhere != block);
  REQUIRE(cudaMallocFromPoolAsync(&again, kMiB, pool, others[0]) == cudaSuccess);
  CHECK(again == block);
  REQUIRE(cudaFreeAsync(again, others[0]) == cudaSuccess);
  REQUIRE(cudaFreeAsync(elsewhere, others[1]) == cudaSuccess);
  for (cudaStream_t const stream : others) {
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    cudaStreamDestroy(stream);
  }
}

TEST_CASE("mapped memory is opened to a peer, and closed with the mapping") {
  const auto look_up = [](const char* name) { return dlsym(RTLD_DEFAULT, name); };
  const auto reserve =
      reinterpret_cast<decltype(&cuMemAddressReserve)>(look_up("cuMemAddressReserve"));
  const auto create = reinterpret_cast<decltype(&cuMemCreate)>(look_up("cuMemCreate"));
  const auto map = reinterpret_cast<decltype(&cuMemMap)>(look_up("cuMemMap"));
  const auto unmap = reinterpret_cast<decltype(&cuMemUnmap)>(look_up("cuMemUnmap"));
  const auto set_access = reinterpret_cast<decltype(&cuMemSetAccess)>(look_up("cuMemSetAccess"));
  const auto get_access = reinterpret_cast<decltype(&cuMemGetAccess)>(look_up("cuMemGetAccess"));
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  REQUIRE(reserve(&address, 2 * kMiB, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(create(&handle, 2 * kMiB, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(map(address, 2 * kMiB, 0, handle, 0) == CUDA_SUCCESS);
  std::array<CUmemAccessDesc, 2> wanted{};
  wanted[0] = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  wanted[1] = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 2},
               .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};
  REQUIRE(set_access(address, 2 * kMiB, wanted.data(), wanted.size()) == CUDA_SUCCESS);
  const auto access_of = [&](int device) {
    const CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    unsigned long long flags = 99;
    CHECK(get_access(&flags, &location, address) == CUDA_SUCCESS);
    return flags;
  };
  CHECK(access_of(0) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(access_of(1) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CHECK(access_of(2) == CU_MEM_ACCESS_FLAGS_PROT_READ);
  REQUIRE(unmap(address, 2 * kMiB) == CUDA_SUCCESS);
  REQUIRE(map(address, 2 * kMiB, 0, handle, 0) == CUDA_SUCCESS);
  CHECK(access_of(2) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
}
