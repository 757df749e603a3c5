// What the allocator tests need from the device below the allocators: how much memory is in use, a
// way to leave little of it, streams, and work that stays unfinished until told. Works on a GPU and
// on simcuda with the same binary.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace allocmark {

// The simulated runtime is in front of this process.
[[nodiscard]] bool on_simcuda();

// Makes the nth call from now of `api` and the ones after it, `count` in all, fail with "out of
// memory". Simcuda only.
struct FaultPlan {
  const char* api = nullptr;
  std::uint64_t nth = 1;
  std::uint64_t count = 1;
};
void plan_fault(const FaultPlan& plan);
void clear_faults();
[[nodiscard]] std::uint64_t call_count(const char* api);

// Memory of the host that is pinned. Simcuda only.
[[nodiscard]] std::uint64_t pinned_bytes();

// Device memory in use, and on simcuda what is pinned of the host. On a GPU other things than
// allocators take some (event pools), hence the tolerance.
[[nodiscard]] std::uint64_t used_bytes();
[[nodiscard]] std::uint64_t used_bytes_tolerance();

// Holds device memory so that about `left_bytes` of it are free; on simcuda pinned memory of the
// host likewise.
class TakenMemory {
 public:
  explicit TakenMemory(std::uint64_t left_bytes);
  ~TakenMemory();
  TakenMemory(const TakenMemory&) = delete;
  TakenMemory& operator=(const TakenMemory&) = delete;

 private:
  void take_pinned(std::uint64_t left_bytes);
  std::vector<void*> blocks_;
  void* pinned_ = nullptr;
};

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Work on a stream that does not end before open().
class Gate {
 public:
  Gate();
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void hold(cudaStream_t stream);
  void open();

 private:
  std::uint64_t number_;
  std::shared_ptr<std::atomic<bool>> is_open_;
};

// The stream has queued work that is not done: what is put on it now does not run yet.
[[nodiscard]] bool is_stalled(cudaStream_t stream);

}  // namespace allocmark
