// Copies and fills that the runtime's and the driver's functions share. In: what programs pass,
// right or wrong. Out: the error; bytes moved, and time on the stream.
#pragma once

#include "harness/simcuda/shim/graph.h"
#include "harness/simcuda/shim/memory_bytes.h"

namespace simcuda {

enum class Wait : std::uint8_t { ForCopy, No };

[[nodiscard]] cudaError_t copy_memory(ThreadState& thread, void* to, const void* from,
                                      CopyShape shape, cudaMemcpyKind kind, cudaStream_t stream,
                                      Wait wait);
// The same as what a node of a graph does.
[[nodiscard]] MadeWork copy_work(void* to, const void* from, CopyShape shape, cudaMemcpyKind kind);
// InvalidValue where it copies nothing; NotSupported where it concerns arrays.
[[nodiscard]] MadeWork copy_work(ThreadState& thread, const CUDA_MEMCPY3D& what);
[[nodiscard]] MadeWork fill_work(void* pointer, FillValue value, CopyShape shape);
[[nodiscard]] cudaError_t fill_memory(ThreadState& thread, void* pointer, FillValue value,
                                      CopyShape shape, cudaStream_t stream);
// Between devices. Where the host waits, it is in no stream: all work of both comes before or
// after.
[[nodiscard]] cudaError_t copy_between(ThreadState& thread, void* to, int to_device,
                                       const void* from, int from_device, std::size_t size_bytes,
                                       cudaStream_t stream, Wait wait);

// Slices of rows; NotSupported where it concerns arrays.
[[nodiscard]] cudaError_t copy_box(ThreadState& thread, const CUDA_MEMCPY3D* what,
                                   cudaStream_t stream, Wait wait);
// Whether a node that was instantiated may do the other one instead: a row from and to the same
// kinds of memory and the same devices, or the same box.
[[nodiscard]] bool copy_may_follow(const CUDA_MEMCPY3D& before, const CUDA_MEMCPY3D& after);

// One row.
[[nodiscard]] inline CopyShape line(std::size_t size_bytes) {
  return {.to_pitch_bytes = size_bytes, .from_pitch_bytes = size_bytes, .width_bytes = size_bytes};
}

}  // namespace simcuda

// A call after which the host goes on once the bytes have moved, and the same in a stream: a
// function and its `Async`, of the RUNTIME (cuda) or the DRIVER (cu). `answer` names `stream` and,
// for copies, `wait`.
#define SIMCUDA_MOVES(Kind, prefix, name, parameters, logged, answer)                       \
  SIMCUDA_##Kind(prefix##name, parameters, logged,                                          \
                 [&](cudaStream_t stream, [[maybe_unused]] Wait wait) { return answer; }(   \
                     nullptr, Wait::ForCopy))                                               \
      SIMCUDA_##Kind(prefix##name##Async, (SIMCUDA_INSIDE parameters, cudaStream_t stream), \
                     (SIMCUDA_INSIDE logged, number(stream)),                               \
                     [&]([[maybe_unused]] Wait wait) { return answer; }(Wait::No))
