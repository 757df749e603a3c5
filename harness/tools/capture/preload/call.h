// What every function that stands before one of the runtime's needs: the real one, whether the call
// is the program's, and the stream that it is on.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "harness/tools/capture/preload/real_runtime.h"
#include "harness/tools/capture/preload/recorder.h"
#include "harness/tools/capture/preload/torch_hook.h"

#define CAPTURE_EXPORT extern "C" __attribute__((visibility("default")))
#define REAL(name) allocmark_capture::real<#name, decltype(&name)>()

namespace allocmark_capture {

inline thread_local int call_depth = 0;

// One call of the program. Calls inside of it are the runtime's own.
class Call {
 public:
  Call() { ++call_depth; }
  ~Call() { --call_depth; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  [[nodiscard]] bool is_programs() const { return call_depth == 1; }
  [[nodiscard]] bool counts() const { return is_programs() && records_runtime(); }
};

inline int current_device() {
  int device = 0;
  return REAL(cudaGetDevice)(&device) == cudaSuccess ? device : -1;
}

// A number that stands for the stream: 0 for the default one, and one of its own for each thread's.
inline std::uint64_t stream_number(cudaStream_t stream) {
  const auto handle = reinterpret_cast<std::uint64_t>(stream);
  if (handle <= 1) return 0;  // cudaStreamLegacy
  if (handle != 2) return handle;
  static thread_local char own;
  return reinterpret_cast<std::uint64_t>(&own) | std::uint64_t{1} << 63;
}

// The stream that is meant where each thread has a default one of its own.
inline cudaStream_t own_stream(cudaStream_t stream) {
  return stream == nullptr ? cudaStreamPerThread : stream;
}

// The capture that the stream is in, by the runtime's number; 0 where it is in none, or in one that
// is recorded by PyTorch's calls. Asks the runtime only while one is under way.
[[nodiscard]] std::uint64_t capture_id_of(cudaStream_t stream);

// The request is one of the graph that is captured, whose memory is a private pool from here on.
// Returns the stream that its rows have. Under the recorder's lock.
std::uint64_t ask_for_graph(Recorder& recorder, int device, const MemoryRequest& request);

}  // namespace allocmark_capture
