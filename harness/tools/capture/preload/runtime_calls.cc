// The functions of the CUDA runtime that this library stands before. Each calls the real one and
// then notes what it gave; what is given back is noted before, since another thread may get it at
// once. Nothing is recorded of calls that the runtime makes by itself.
#include <cuda_runtime_api.h>

#include <cstdint>

#include "harness/tools/capture/preload/call.h"
#include "harness/tools/capture/preload/recorder.h"

// Programs that are compiled with a default stream for each thread call these.
extern "C" {
cudaError_t cudaMallocAsync_ptsz(void**, size_t, cudaStream_t);
cudaError_t cudaMallocFromPoolAsync_ptsz(void**, size_t, cudaMemPool_t, cudaStream_t);
cudaError_t cudaFreeAsync_ptsz(void*, cudaStream_t);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t);
}

namespace allocmark_capture {
namespace {

MemoryRequest asked_on(std::uint64_t size_bytes, cudaStream_t stream, cudaMemPool_t pool) {
  return {.size_bytes = size_bytes,
          .stream = stream_number(stream),
          .capture_id = capture_id_of(stream),
          .driver_pool = reinterpret_cast<std::uint64_t>(pool)};
}

// What a request came to. Of failures only those count that memory is the reason of.
cudaError_t note(const Call& call, cudaError_t answer, void* const* pointer,
                 const MemoryRequest& asked) {
  const bool failed = answer == cudaErrorMemoryAllocation;
  if (!call.counts() || (!failed && (answer != cudaSuccess || *pointer == nullptr))) return answer;
  const int device = current_device();
  const LockedRecorder recorder;
  DeviceTrace* const trace = recorder->device(device);
  if (trace == nullptr) return answer;
  if (asked.driver_pool) recorder->used_driver_pool(*asked.driver_pool);
  MemoryRequest request = asked;
  if (asked.capture_id != 0) request.stream = ask_for_graph(*recorder.operator->(), device, asked);
  if (failed) {
    trace->failed(request);
  } else {
    request.address = reinterpret_cast<std::uint64_t>(*pointer);
    trace->allocated(request);
  }
  return answer;
}

void note_free(const Call& call, void* pointer) {
  if (!call.counts() || pointer == nullptr) return;
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  const LockedRecorder recorder;
  if (DeviceTrace* const trace = recorder->owner_of(address); trace != nullptr)
    (void)trace->freed(address);
  recorder->for_each([&](DeviceTrace& trace) { trace.host_freed(address); });
}

void note_free_on(const Call& call, void* pointer, std::uint64_t stream, std::uint64_t capture_id) {
  if (!call.counts() || pointer == nullptr) return;
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  const LockedRecorder recorder;
  if (const CaptureUnderWay* const capture = recorder->graphs().find(capture_id);
      capture != nullptr)
    stream = capture->stream;
  if (DeviceTrace* const trace = recorder->owner_of(address); trace != nullptr)
    (void)trace->freed_on(address, stream);
  recorder->for_each([&](DeviceTrace& trace) { trace.host_freed(address); });
}

// A pool of the driver may have the host's memory.
bool is_of_host(cudaError_t answer, void* const* pointer) {
  cudaPointerAttributes attributes{};
  return answer == cudaSuccess && *pointer != nullptr &&
         cudaPointerGetAttributes(&attributes, *pointer) == cudaSuccess &&
         attributes.type == cudaMemoryTypeHost;
}

// Of pinned memory only what was given is noted: a trace has no request of the host that failed.
cudaError_t note_host(const Call& call, cudaError_t answer, const void* pointer,
                      std::size_t size_bytes) {
  if (!call.counts() || answer != cudaSuccess || pointer == nullptr) return answer;
  const int device = current_device();
  const LockedRecorder recorder;
  if (DeviceTrace* const trace = recorder->device(device); trace != nullptr)
    trace->host_allocated(reinterpret_cast<std::uint64_t>(pointer), size_bytes);
  return answer;
}

// A wait for a stream or an event is written as one for the device: traces have no other.
cudaError_t note_wait(const Call& call, cudaError_t answer) {
  if (!call.counts() || answer != cudaSuccess) return answer;
  const LockedRecorder recorder;
  recorder->for_each([](DeviceTrace& trace) { trace.waited(); });
  return answer;
}

cudaError_t note_left_out(const Call& call, cudaError_t answer, const char* function) {
  if (!call.counts() || answer != cudaSuccess) return answer;
  const LockedRecorder recorder;
  if (recorder->is_on()) recorder->left_out(function);
  return answer;
}

}  // namespace

CAPTURE_EXPORT cudaError_t cudaMalloc(void** pointer, size_t size_bytes) {
  const Call call;
  return note(call, REAL(cudaMalloc)(pointer, size_bytes), pointer, {.size_bytes = size_bytes});
}

CAPTURE_EXPORT cudaError_t cudaMallocPitch(void** pointer, size_t* pitch_bytes, size_t width_bytes,
                                           size_t height) {
  const Call call;
  const cudaError_t answer = REAL(cudaMallocPitch)(pointer, pitch_bytes, width_bytes, height);
  const std::size_t row_bytes = answer == cudaSuccess ? *pitch_bytes : width_bytes;
  return note(call, answer, pointer, {.size_bytes = row_bytes * height});
}

CAPTURE_EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* memory, cudaExtent extent) {
  const Call call;
  const cudaError_t answer = REAL(cudaMalloc3D)(memory, extent);
  const std::size_t row_bytes = answer == cudaSuccess ? memory->pitch : extent.width;
  return note(call, answer, &memory->ptr, {.size_bytes = row_bytes * extent.height * extent.depth});
}

CAPTURE_EXPORT cudaError_t cudaFree(void* pointer) {
  const Call call;
  note_free(call, pointer);
  return REAL(cudaFree)(pointer);
}

CAPTURE_EXPORT cudaError_t cudaMallocHost(void** pointer, size_t size_bytes) {
  const Call call;
  const cudaError_t answer = REAL(cudaMallocHost)(pointer, size_bytes);
  return note_host(call, answer, answer == cudaSuccess ? *pointer : nullptr, size_bytes);
}

CAPTURE_EXPORT cudaError_t cudaHostAlloc(void** pointer, size_t size_bytes, unsigned int flags) {
  const Call call;
  const cudaError_t answer = REAL(cudaHostAlloc)(pointer, size_bytes, flags);
  return note_host(call, answer, answer == cudaSuccess ? *pointer : nullptr, size_bytes);
}

CAPTURE_EXPORT cudaError_t cudaFreeHost(void* pointer) {
  const Call call;
  note_free(call, pointer);
  return REAL(cudaFreeHost)(pointer);
}

CAPTURE_EXPORT cudaError_t cudaHostRegister(void* pointer, size_t size_bytes, unsigned int flags) {
  const Call call;
  return note_host(call, REAL(cudaHostRegister)(pointer, size_bytes, flags), pointer, size_bytes);
}

CAPTURE_EXPORT cudaError_t cudaHostUnregister(void* pointer) {
  const Call call;
  note_free(call, pointer);
  return REAL(cudaHostUnregister)(pointer);
}

CAPTURE_EXPORT cudaError_t cudaMallocAsync(void** pointer, size_t size_bytes, cudaStream_t stream) {
  const Call call;
  return note(call, REAL(cudaMallocAsync)(pointer, size_bytes, stream), pointer,
              asked_on(size_bytes, stream, nullptr));
}

CAPTURE_EXPORT cudaError_t cudaMallocAsync_ptsz(void** pointer, size_t size_bytes,
                                                cudaStream_t stream) {
  const Call call;
  return note(call, REAL(cudaMallocAsync_ptsz)(pointer, size_bytes, stream), pointer,
              asked_on(size_bytes, own_stream(stream), nullptr));
}

CAPTURE_EXPORT cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t size_bytes,
                                                   cudaMemPool_t pool, cudaStream_t stream) {
  const Call call;
  const cudaError_t answer = REAL(cudaMallocFromPoolAsync)(pointer, size_bytes, pool, stream);
  if (is_of_host(answer, pointer)) return note_host(call, answer, *pointer, size_bytes);
  return note(call, answer, pointer, asked_on(size_bytes, stream, pool));
}

CAPTURE_EXPORT cudaError_t cudaMallocFromPoolAsync_ptsz(void** pointer, size_t size_bytes,
                                                        cudaMemPool_t pool, cudaStream_t stream) {
  const Call call;
  const cudaError_t answer = REAL(cudaMallocFromPoolAsync_ptsz)(pointer, size_bytes, pool, stream);
  if (is_of_host(answer, pointer)) return note_host(call, answer, *pointer, size_bytes);
  return note(call, answer, pointer, asked_on(size_bytes, own_stream(stream), pool));
}

CAPTURE_EXPORT cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  const Call call;
  note_free_on(call, pointer, stream_number(stream), capture_id_of(stream));
  return REAL(cudaFreeAsync)(pointer, stream);
}

CAPTURE_EXPORT cudaError_t cudaFreeAsync_ptsz(void* pointer, cudaStream_t stream) {
  const Call call;
  const cudaStream_t own = own_stream(stream);
  note_free_on(call, pointer, stream_number(own), capture_id_of(own));
  return REAL(cudaFreeAsync_ptsz)(pointer, stream);
}

CAPTURE_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes_to_keep) {
  const Call call;
  const cudaError_t answer = REAL(cudaMemPoolTrimTo)(pool, bytes_to_keep);
  if (call.counts() && answer == cudaSuccess && bytes_to_keep == 0) {
    const LockedRecorder recorder;
    recorder->for_each([](DeviceTrace& trace) { trace.trimmed(); });
  }
  return answer;
}

CAPTURE_EXPORT cudaError_t cudaDeviceSynchronize() {
  const Call call;
  return note_wait(call, REAL(cudaDeviceSynchronize)());
}

CAPTURE_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Call call;
  return note_wait(call, REAL(cudaStreamSynchronize)(stream));
}

CAPTURE_EXPORT cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
  const Call call;
  return note_wait(call, REAL(cudaStreamSynchronize_ptsz)(stream));
}

CAPTURE_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Call call;
  return note_wait(call, REAL(cudaEventSynchronize)(event));
}

CAPTURE_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Call call;
  if (call.counts()) {
    const LockedRecorder recorder;
    recorder->for_each([&](DeviceTrace& trace) { trace.stream_destroyed(stream_number(stream)); });
  }
  return REAL(cudaStreamDestroy)(stream);
}

CAPTURE_EXPORT cudaError_t cudaDeviceReset() {
  const Call call;
  const int device = call.counts() ? current_device() : -1;
  const cudaError_t answer = REAL(cudaDeviceReset)();
  if (device < 0 || answer != cudaSuccess) return answer;
  const LockedRecorder recorder;
  if (DeviceTrace* const trace = recorder->device(device); trace != nullptr)
    trace->everything_freed();
  return answer;
}

// PyTorch asks for the device before each request, and before it takes its own lock.
CAPTURE_EXPORT cudaError_t cudaGetDevice(int* device) {
  look_for_torch();
  return REAL(cudaGetDevice)(device);
}

CAPTURE_EXPORT cudaError_t cudaMallocManaged(void** pointer, size_t size_bytes,
                                             unsigned int flags) {
  const Call call;
  return note_left_out(call, REAL(cudaMallocManaged)(pointer, size_bytes, flags),
                       "cudaMallocManaged");
}

CAPTURE_EXPORT cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* format,
                                           size_t width, size_t height, unsigned int flags) {
  const Call call;
  return note_left_out(call, REAL(cudaMallocArray)(array, format, width, height, flags),
                       "cudaMallocArray");
}

CAPTURE_EXPORT cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                    const cudaGraphNode_t* dependencies,
                                                    size_t dependency_count,
                                                    cudaMemAllocNodeParams* parameters) {
  const Call call;
  return note_left_out(
      call, REAL(cudaGraphAddMemAllocNode)(node, graph, dependencies, dependency_count, parameters),
      "cudaGraphAddMemAllocNode");
}

}  // namespace allocmark_capture
