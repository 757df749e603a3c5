// See cuda_host_driver.h.
#include "allocators/host_caching/cuda_host_driver.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"

namespace allocmark::host_caching {
namespace {

constexpr std::uint64_t kPageBytes = 4 * kKiB;

void* pointer_of(Address address) { return reinterpret_cast<void*>(address); }
cudaEvent_t event_of(Event event) { return reinterpret_cast<cudaEvent_t>(event); }

// Writes to the first byte of each page, so that the pages exist before they are registered.
void touch(char* first, char* end) {
  for (char* page = first; page < end; page += kPageBytes) *static_cast<volatile char*>(page) = 0;
}

void touch_all(char* first, std::uint64_t size_bytes, std::uint64_t thread_count) {
  if (thread_count <= 1 || size_bytes < kPageBytes * thread_count) {
    touch(first, first + size_bytes);
    return;
  }
  const std::uint64_t share_bytes = (size_bytes / thread_count) / kPageBytes * kPageBytes;
  std::vector<std::jthread> threads;
  for (std::uint64_t i = 0; i < thread_count; ++i) {
    char* const begin = first + i * share_bytes;
    char* const end = i + 1 == thread_count ? first + size_bytes : begin + share_bytes;
    threads.emplace_back(touch, begin, end);
  }
}

}  // namespace

Address CudaHostDriver::pin(std::uint64_t size_bytes, PinKind kind, std::uint64_t thread_count) {
  if (kind == PinKind::HostAlloc) {
    void* pointer = nullptr;
    const cudaError_t error = cudaHostAlloc(&pointer, size_bytes, cudaHostAllocDefault);
    if (is_out_of_memory(error)) return 0;
    ALLOCMARK_CUDA_CHECK(error);
    return reinterpret_cast<Address>(pointer);
  }
  char* const pointer = static_cast<char*>(std::malloc(size_bytes));
  if (pointer == nullptr) return 0;
  touch_all(pointer, size_bytes, thread_count);
  const cudaError_t error = cudaHostRegister(pointer, size_bytes, cudaHostRegisterDefault);
  if (error == cudaSuccess) return reinterpret_cast<Address>(pointer);
  std::free(pointer);
  if (is_out_of_memory(error)) return 0;
  ALLOCMARK_CUDA_CHECK(error);
  return 0;
}

void CudaHostDriver::unpin(Address address, PinKind kind) {
  if (kind == PinKind::HostAlloc) {
    ALLOCMARK_CUDA_CHECK(cudaFreeHost(pointer_of(address)));
    return;
  }
  ALLOCMARK_CUDA_CHECK(cudaHostUnregister(pointer_of(address)));
  std::free(pointer_of(address));
}

Event CudaHostDriver::record_event(Stream stream) {
  cudaEvent_t event = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  ALLOCMARK_CUDA_CHECK(cudaEventRecord(event, reinterpret_cast<cudaStream_t>(stream)));
  return reinterpret_cast<Event>(event);
}

bool CudaHostDriver::event_done(Event event) {
  const cudaError_t error = cudaEventQuery(event_of(event));
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  ALLOCMARK_CUDA_CHECK(error);
  return true;
}

void CudaHostDriver::destroy_event(Event event) {
  ALLOCMARK_CUDA_CHECK(cudaEventDestroy(event_of(event)));
}

}  // namespace allocmark::host_caching
