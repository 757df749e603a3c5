// Helpers of the conformance program. The same binary runs on a real GPU, whose answers are the
// reference, and on simcuda. It checks; it does not time.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdint>
#include <string>

namespace conformance {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Error of a call and the error that it left behind, by name; clears the latter.
struct Answer {
  std::string error;
  std::string last_error;
};
inline Answer answer(cudaError_t error) {
  return {cudaGetErrorName(error), cudaGetErrorName(cudaGetLastError())};
}

inline std::uint64_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
}

// Work of a millisecond or more on a stream: fills on a real GPU, a bare launch on simcuda (which
// would have to touch the memory).
class BusyWork {
 public:
  BusyWork() {
    launch_ = reinterpret_cast<Launch>(dlsym(RTLD_DEFAULT, "simcu_launch"));
    if (launch_ == nullptr && cudaMalloc(&memory_, kBytes) != cudaSuccess) {
      memory_ = nullptr;
    }
  }
  ~BusyWork() { cudaFree(memory_); }
  BusyWork(const BusyWork&) = delete;
  BusyWork& operator=(const BusyWork&) = delete;
  void start(cudaStream_t stream) const {
    if (launch_ != nullptr) {
      launch_(stream, 2'000'000);
    } else {
      cudaMemsetAsync(memory_, 0, kBytes, stream);
    }
  }

 private:
  static constexpr std::uint64_t kBytes = std::uint64_t{8} << 30;
  using Launch = int (*)(void*, std::uint64_t);
  Launch launch_ = nullptr;
  void* memory_ = nullptr;
};

}  // namespace conformance

#define REQUIRE_ANSWER(call, wanted)                                  \
  do {                                                                \
    const conformance::Answer got_answer = conformance::answer(call); \
    CHECK(got_answer.error == (wanted));                              \
    CHECK(got_answer.last_error == (wanted));                         \
  } while (false)
