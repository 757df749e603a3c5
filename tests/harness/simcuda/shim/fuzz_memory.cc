// Steps of the fuzzer: memory of the heap and of pools, host memory, copies, mappings.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <array>

#include "harness/simcuda/simcu.h"
#include "tests/harness/simcuda/shim/fuzz_state.h"

namespace fuzz {
namespace {

void keep_block(State& state, void* block) {
  const std::uint64_t before =
      state.shared().blocks.put(reinterpret_cast<std::uint64_t>(block), state.random());
  (void)cudaFree(reinterpret_cast<void*>(before));
}

cudaStream_t any_stream(State& state) { return state.as<cudaStream_t>(state.shared().streams); }

// As of the host's memory, only its owner may name it: a copy from freed pages is a crash.
void use_managed(State& state) {
  void* block = nullptr;
  const std::uint64_t size_bytes = state.size();
  if (cudaMallocManaged(&block, size_bytes, state.word(3)) != cudaSuccess) return;
  const auto place = [&] {
    return cudaMemLocation{.type = static_cast<cudaMemLocationType>(state.word(6)),
                           .id = state.word(3)};
  };
  std::array<int, 2> values{};
  for (std::uint64_t calls = state.below(8); calls > 0; --calls) {
    const char* const first = static_cast<char*>(block) + state.below(2) * state.below(1 << 20);
    (void)cudaMemAdvise(first, state.size(), static_cast<cudaMemoryAdvise>(state.word(8)), place());
    (void)cudaMemPrefetchAsync(first, state.size(), place(), state.one_in(20), any_stream(state));
    (void)cudaMemRangeGetAttribute(values.data(), state.below(3) * sizeof(int),
                                   static_cast<cudaMemRangeAttribute>(state.word(10)), first,
                                   state.size());
  }
  (void)cudaFree(block);
}

void allocate(State& state) {
  void* block = nullptr;
  const std::uint64_t size_bytes = state.size();
  cudaError_t error = cudaSuccess;
  switch (state.below(6)) {
    case 0:
      error = cudaMalloc(state.one_in(50) ? nullptr : &block, size_bytes);
      break;
    case 1:
      error = cudaMallocAsync(&block, size_bytes, any_stream(state));
      break;
    case 2:
      error = cudaMallocFromPoolAsync(
          &block, size_bytes, state.as<cudaMemPool_t>(state.shared().pools), any_stream(state));
      break;
    case 3:
      return use_managed(state);
    case 4: {
      std::size_t pitch = 0;
      error = cudaMallocPitch(&block, &pitch, state.size(), state.below(64));
      break;
    }
    default:
      error = cudaMalloc(&block, size_bytes);
  }
  if (error != cudaSuccess || block == nullptr) return;
  ++state.shared().served;
  keep_block(state, block);
}

void release(State& state) {
  void* const block = state.as<void*>(state.shared().blocks, true);
  const cudaError_t error =
      state.one_in(2) ? cudaFree(block) : cudaFreeAsync(block, any_stream(state));
  // What a wrong stream or a planned fault kept is tried again.
  if (error != cudaSuccess) keep_block(state, block);
}

void pin(State& state) {
  void* block = nullptr;
  if (state.one_in(8)) {
    (void)cudaHostRegister(state.host(), kHostBytes, state.word(4));
    (void)cudaHostUnregister(state.host());
    return;
  }
  const std::uint64_t size_bytes = state.below(1 << 20);
  const cudaError_t error = state.one_in(2) ? cudaMallocHost(&block, size_bytes)
                                            : cudaHostAlloc(&block, size_bytes, state.word(8));
  if (error != cudaSuccess) return;
  const std::uint64_t before =
      state.shared().pinned.put(reinterpret_cast<std::uint64_t>(block), state.random());
  (void)cudaFreeHost(reinterpret_cast<void*>(before));
}

void unpin(State& state) {
  void* const block = state.as<void*>(state.shared().pinned, true);
  void* shown = nullptr;
  unsigned flags = 0;
  (void)cudaHostGetDevicePointer(&shown, block, 0);
  (void)cudaHostGetFlags(&flags, block);
  (void)cudaFreeHost(block);
}

// Host memory is this thread's; what device memory holds is written by one thread at a time, as
// programs must see to.
void copy(State& state) {
  auto* const one = state.as<std::byte*>(state.shared().blocks);
  auto* const two = state.as<std::byte*>(state.shared().blocks);
  const std::size_t size_bytes = state.below(kHostBytes + 1);
  cudaStream_t const stream = any_stream(state);
  const std::scoped_lock lock(state.shared().contents);
  switch (state.below(9)) {
    case 0:
      (void)cudaMemcpy(one, state.host(), size_bytes, cudaMemcpyHostToDevice);
      break;
    case 1:
      (void)cudaMemcpy(state.host(), one, size_bytes, cudaMemcpyDeviceToHost);
      break;
    case 2:
      (void)cudaMemcpy(one, two, state.size(), cudaMemcpyDeviceToDevice);
      break;
    case 3:
      (void)cudaMemcpyAsync(one, state.host(), size_bytes, cudaMemcpyHostToDevice, stream);
      break;
    case 4:
      (void)cudaMemcpyAsync(state.host(), one, size_bytes, cudaMemcpyDeviceToHost, stream);
      break;
    case 5:
      (void)cudaMemcpyAsync(one, two, size_bytes, cudaMemcpyDeviceToDevice, stream);
      break;
    case 6:
      (void)cudaMemcpyPeer(one, state.word(3), two, state.word(3), size_bytes);
      break;
    case 7:
      (void)cudaMemcpyPeerAsync(one, state.word(3), two, state.word(3), size_bytes, stream);
      break;
    default:
      (void)cudaMemcpy2D(state.host(), state.below(1025), one, state.below(1025), state.below(257),
                         state.below(17), cudaMemcpyDeviceToHost);
  }
}

void fill(State& state) {
  auto* const block = state.as<std::byte*>(state.shared().blocks);
  const std::size_t size_bytes = state.one_in(20) ? state.size() : state.below(1 << 16);
  const std::scoped_lock lock(state.shared().contents);
  switch (state.below(4)) {
    case 0:
      (void)cudaMemset(block, state.word(256), size_bytes);
      break;
    case 1:
      (void)cudaMemsetAsync(block, state.word(256), size_bytes, any_stream(state));
      break;
    case 2:
      (void)cudaMemset2D(block, state.below(4096), 1, state.below(4096), 16);
      break;
    default:
      (void)FUZZ_FIND(cuMemsetD32Async)(reinterpret_cast<CUdeviceptr>(block), 7,
                                        state.below(1 << 14), any_stream(state));
  }
}

void make_pool(State& state) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {.type = cudaMemLocationTypeDevice, .id = state.word(3)};
  if (state.one_in(10))
    properties.handleTypes = static_cast<cudaMemAllocationHandleType>(state.word(9));
  cudaMemPool_t pool = nullptr;
  if (cudaMemPoolCreate(&pool, &properties) != cudaSuccess) return;
  const std::uint64_t before =
      state.shared().pools.put(reinterpret_cast<std::uint64_t>(pool), state.random());
  (void)cudaMemPoolDestroy(reinterpret_cast<cudaMemPool_t>(before));
}

void use_pool(State& state) {
  auto* pool = state.as<cudaMemPool_t>(state.shared().pools, state.one_in(20));
  if (state.one_in(3)) (void)cudaDeviceGetDefaultMemPool(&pool, state.word(3));
  std::uint64_t value = state.size();
  cudaMemAccessDesc access{};
  access.location = {.type = cudaMemLocationTypeDevice, .id = state.word(3)};
  access.flags = static_cast<cudaMemAccessFlags>(state.word(4));
  switch (state.below(7)) {
    case 0:
      (void)cudaMemPoolTrimTo(pool, value);
      break;
    case 1:
      (void)cudaMemPoolGetAttribute(pool, static_cast<cudaMemPoolAttr>(state.word(9)), &value);
      break;
    case 2:
      (void)cudaMemPoolSetAttribute(pool, static_cast<cudaMemPoolAttr>(state.word(9)), &value);
      break;
    case 3:
      (void)cudaMemPoolSetAccess(pool, &access, state.below(2));
      break;
    case 4:
      (void)cudaMemPoolGetAccess(&access.flags, pool, &access.location);
      break;
    case 5:
      (void)cudaDeviceSetMemPool(state.word(3), pool);
      break;
    default:
      (void)cudaMemPoolDestroy(pool);
  }
}

CUmemAllocationProp property_of(State& state) {
  CUmemAllocationProp property{};
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = state.word(3)};
  if (state.one_in(4)) property.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return property;
}

std::uint64_t chunks(State& state) { return (1 + state.below(4)) * (std::uint64_t{2} << 20); }

void create_memory(State& state) {
  const CUmemAllocationProp property = property_of(state);
  CUmemGenericAllocationHandle handle = 0;
  std::size_t granularity = 0;
  (void)FUZZ_FIND(cuMemGetAllocationGranularity)(
      &granularity, &property, static_cast<CUmemAllocationGranularity_flags>(state.word(2)));
  const std::uint64_t size_bytes = state.one_in(10) ? state.size() : chunks(state);
  if (FUZZ_FIND(cuMemCreate)(&handle, size_bytes, &property, 0) != CUDA_SUCCESS) return;
  (void)FUZZ_FIND(cuMemRelease)(state.shared().memory_handles.put(handle, state.random()));
}

void use_memory(State& state) {
  const CUmemGenericAllocationHandle handle = state.any(state.shared().memory_handles);
  CUmemGenericAllocationHandle other = 0;
  CUmemAllocationProp property{};
  int file = -1;
  switch (state.below(4)) {
    case 0:
      (void)FUZZ_FIND(cuMemRelease)(handle);
      break;
    case 1:
      (void)FUZZ_FIND(cuMemGetAllocationPropertiesFromHandle)(&property, handle);
      break;
    case 2:
      if (FUZZ_FIND(cuMemRetainAllocationHandle)(&other, state.as<void*>(state.shared().ranges)) ==
          CUDA_SUCCESS)
        (void)FUZZ_FIND(cuMemRelease)(other);
      break;
    default:
      if (FUZZ_FIND(cuMemExportToShareableHandle)(
              &file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS)
        return;
      if (FUZZ_FIND(cuMemImportFromShareableHandle)(
              &other, reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS)
        (void)FUZZ_FIND(cuMemRelease)(other);
      close(file);
  }
}

void reserve(State& state) {
  CUdeviceptr range = 0;
  const std::uint64_t size_bytes = state.one_in(20) ? state.size() : 4 * (std::uint64_t{2} << 20);
  if (FUZZ_FIND(cuMemAddressReserve)(&range, size_bytes, state.one_in(10) ? state.size() : 0, 0,
                                     0) != CUDA_SUCCESS)
    return;
  const CUdeviceptr before = state.shared().ranges.put(range, state.random());
  (void)FUZZ_FIND(cuMemUnmap)(before, 4 * (std::uint64_t{2} << 20));
  (void)FUZZ_FIND(cuMemAddressFree)(before, 4 * (std::uint64_t{2} << 20));
}

void map(State& state) {
  const CUdeviceptr range = state.any(state.shared().ranges);
  const CUdeviceptr place = range + state.below(4) * (std::uint64_t{2} << 20);
  CUmemAccessDesc access{};
  access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = state.word(3)};
  access.flags = static_cast<CUmemAccess_flags>(state.word(4));
  unsigned long long flags = 0;
  switch (state.below(6)) {
    case 0:
    case 1:
      (void)FUZZ_FIND(cuMemMap)(place, chunks(state), state.one_in(20) ? 512 : 0,
                                state.any(state.shared().memory_handles), 0);
      break;
    case 2:
      (void)FUZZ_FIND(cuMemSetAccess)(place, chunks(state), &access, state.below(2));
      break;
    case 3:
      (void)FUZZ_FIND(cuMemGetAccess)(&flags, &access.location, place);
      break;
    case 4:
      (void)FUZZ_FIND(cuMemUnmap)(place, chunks(state));
      break;
    default: {
      const std::scoped_lock lock(state.shared().contents);
      (void)cudaMemset(reinterpret_cast<void*>(place), 1, state.below(1 << 16));
    }
  }
}

void give_range_back(State& state) {
  const CUdeviceptr range = state.any(state.shared().ranges, true);
  if (!state.one_in(4)) (void)FUZZ_FIND(cuMemUnmap)(range, 4 * (std::uint64_t{2} << 20));
  const std::uint64_t size_bytes = state.one_in(10) ? state.size() : 4 * (std::uint64_t{2} << 20);
  if (FUZZ_FIND(cuMemAddressFree)(range, size_bytes) != CUDA_SUCCESS)
    state.shared().ranges.put(range, state.random());
}

constexpr Step kMemory[] = {
    {"allocate", 20, allocate},  {"release", 18, release}, {"pin", 3, pin},
    {"unpin", 3, unpin},         {"copy", 10, copy},       {"fill", 6, fill},
    {"make_pool", 2, make_pool}, {"use_pool", 5, use_pool}};
constexpr Step kMapping[] = {{"create_memory", 5, create_memory},
                             {"use_memory", 5, use_memory},
                             {"reserve", 5, reserve},
                             {"map", 8, map},
                             {"give_range_back", 3, give_range_back}};

}  // namespace

std::span<const Step> memory_steps() { return kMemory; }
std::span<const Step> mapping_steps() { return kMapping; }

}  // namespace fuzz
