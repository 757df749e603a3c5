// The runtime calls of the caching allocator; the driver's virtual memory functions are in
// cuda_driver_virtual_memory.cc.
#include "allocators/cuda/cuda_driver.h"

#include "allocators/cuda/cuda_check.h"

namespace allocmark {
namespace {

cudaStream_t stream_of(caching::Stream stream) { return reinterpret_cast<cudaStream_t>(stream); }

cudaEvent_t event_of(caching::Event event) { return reinterpret_cast<cudaEvent_t>(event); }

void* pointer_of(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// Lets others have a held mutex for a while.
class Released {
 public:
  explicit Released(Mutex* mutex) : mutex_(mutex) {
    if (mutex_ != nullptr) mutex_->unlock();
  }
  ~Released() {
    if (mutex_ != nullptr) mutex_->lock();
  }
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

 private:
  Mutex* mutex_;
};

std::uint64_t pool_bytes(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  std::uint64_t bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemPoolGetAttribute(pool, attribute, &bytes));
  return bytes;
}

}  // namespace

CudaDriver::CudaDriver(Mutex* released) : released_(released) {
  ALLOCMARK_CUDA_CHECK(cudaGetDevice(&device_));
}

void CudaDriver::check_pending_error() { ALLOCMARK_CUDA_CHECK(cudaGetLastError()); }

std::optional<std::uint64_t> CudaDriver::allocate(std::uint64_t size_bytes,
                                                  caching::Stream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  ALLOCMARK_CUDA_CHECK(cudaStreamIsCapturing(stream_of(stream), &status));
  void* pointer = nullptr;
  cudaError_t error = cudaSuccess;
  {
    const Released others_may_go_on(released_);
    error = cudaMalloc(&pointer, size_bytes);
  }
  if (is_out_of_memory(error)) return std::nullopt;
  ALLOCMARK_CUDA_CHECK(error);
  return reinterpret_cast<std::uint64_t>(pointer);
}

void CudaDriver::free(std::uint64_t address) {
  ALLOCMARK_CUDA_CHECK(cudaFree(pointer_of(address)));
}

caching::DeviceMemory CudaDriver::memory() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return {free_bytes, total_bytes};
}

std::uint64_t CudaDriver::device_total_bytes() {
  cudaDeviceProp properties{};
  ALLOCMARK_CUDA_CHECK(cudaGetDeviceProperties(&properties, device_));
  return properties.totalGlobalMem;
}

caching::Event CudaDriver::create_event() {
  cudaEvent_t event = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return reinterpret_cast<caching::Event>(event);
}

void CudaDriver::destroy_event(caching::Event event) {
  ALLOCMARK_CUDA_CHECK(cudaEventDestroy(event_of(event)));
}

void CudaDriver::record_event(caching::Event event, caching::Stream stream) {
  ALLOCMARK_CUDA_CHECK(cudaEventRecord(event_of(event), stream_of(stream)));
}

bool CudaDriver::event_done(caching::Event event) {
  const cudaError_t error = cudaEventQuery(event_of(event));
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  ALLOCMARK_CUDA_CHECK(error);
  return true;
}

void CudaDriver::wait_for_event(caching::Event event) {
  ALLOCMARK_CUDA_CHECK(cudaEventSynchronize(event_of(event)));
}

void CudaDriver::wait_for_stream(caching::Stream stream) {
  ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(stream_of(stream)));
}

void CudaDriver::wait_for_device() { ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize()); }

void CudaDriver::prepare_pool() {
  ALLOCMARK_CUDA_CHECK(cudaDeviceGetDefaultMemPool(&pool_, device_));
  std::uint64_t threshold_bytes = UINT64_MAX;
  ALLOCMARK_CUDA_CHECK(
      cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold_bytes));
  for (const cudaMemPoolAttr attribute :
       {cudaMemPoolReuseFollowEventDependencies, cudaMemPoolReuseAllowOpportunistic,
        cudaMemPoolReuseAllowInternalDependencies}) {
    int enabled = 1;
    ALLOCMARK_CUDA_CHECK(cudaMemPoolSetAttribute(pool_, attribute, &enabled));
  }
}

std::optional<std::uint64_t> CudaDriver::pool_allocate(std::uint64_t size_bytes,
                                                       caching::Stream stream) {
  void* pointer = nullptr;
  const cudaError_t error = cudaMallocAsync(&pointer, size_bytes, stream_of(stream));
  if (is_out_of_memory(error)) return std::nullopt;
  ALLOCMARK_CUDA_CHECK(error);
  return reinterpret_cast<std::uint64_t>(pointer);
}

void CudaDriver::pool_free(std::uint64_t address, caching::Stream stream) {
  ALLOCMARK_CUDA_CHECK(cudaFreeAsync(pointer_of(address), stream_of(stream)));
}

void CudaDriver::trim_pool() { ALLOCMARK_CUDA_CHECK(cudaMemPoolTrimTo(pool_, 0)); }

caching::PoolUsage CudaDriver::pool_usage() {
  return {.used_bytes = pool_bytes(pool_, cudaMemPoolAttrUsedMemCurrent),
          .used_bytes_peak = pool_bytes(pool_, cudaMemPoolAttrUsedMemHigh),
          .reserved_bytes = pool_bytes(pool_, cudaMemPoolAttrReservedMemCurrent),
          .reserved_bytes_peak = pool_bytes(pool_, cudaMemPoolAttrReservedMemHigh)};
}

caching::Stream CudaDriver::create_stream() {
  cudaStream_t stream = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return reinterpret_cast<caching::Stream>(stream);
}

void CudaDriver::destroy_stream(caching::Stream stream) {
  ALLOCMARK_CUDA_CHECK(cudaStreamDestroy(stream_of(stream)));
}

void CudaDriver::make_stream_wait(caching::Stream stream, caching::Event event) {
  ALLOCMARK_CUDA_CHECK(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0));
}

}  // namespace allocmark
