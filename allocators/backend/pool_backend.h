// A pool of addresses as a backend: what backends that are rebuilt from somebody's rules do around
// every call of their pool, which knows neither pointers nor threads. Requests flow in, each with
// its stream; addresses flow out of the pool.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "allocators/backend/backend.h"
#include "allocators/backend/stream_uses.h"
#include "allocators/cuda/device_memory.h"
#include "allocators/cuda/streams.h"

namespace allocmark {

// A Pool has
// - allocate(size_bytes, stream): the address of more than 0 bytes, which are usable on the stream
//   from this point of its order on; nothing where there is no memory,
// - deallocate(address, stream, others): false where no live block begins there. `others` are the
//   streams that record_stream named for it,
// - totals(), and add_free(stats, stream), which fills the free_* fields that it knows,
// - where it can: trim(), counters(), segments().
// One thread at a time calls it, and it gives all memory back at its end, live blocks too.
template <class Pool>
class PoolBackend final : public Backend {
 public:
  // The pool is made of `arguments`. `name` as "cupy backend", for errors.
  template <class... Arguments>
  explicit PoolBackend(const char* name, Arguments&&... arguments)
      : name_(name), pool_(std::forward<Arguments>(arguments)...) {}

  // The caller owns the block and gives it back with deallocate, on any thread. Blocks the host as
  // the pool does.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    if (size_bytes == 0) return {};
    if (size_bytes > kDeviceRequestBytesMax) return kOutOfMemory;
    const std::lock_guard lock(mutex_);
    return result_at(pool_.allocate(size_bytes, number_of(stream)));
  }

  void deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    const std::vector<cudaStream_t> others = uses_.take(pointer);
    if (!pool_.deallocate(reinterpret_cast<std::uint64_t>(pointer), stream, others))
      throw_invalid_pointer(name_);
  }

  void record_stream(void* pointer, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    uses_.add(pointer, stream);
  }

  void trim() override {
    const std::lock_guard lock(mutex_);
    if constexpr (requires { pool_.trim(); }) pool_.trim();
  }

  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override {
    const std::lock_guard lock(mutex_);
    MemoryStats stats = pool_.totals();
    pool_.add_free(stats, number_of(stream));
    return stats;
  }

  [[nodiscard]] MemoryStats totals() const override {
    const std::lock_guard lock(mutex_);
    return pool_.totals();
  }

  [[nodiscard]] std::vector<NamedCounter> counters() const override {
    const std::lock_guard lock(mutex_);
    return pool_.counters();
  }

  [[nodiscard]] std::vector<MemorySegment> segments() const override {
    const std::lock_guard lock(mutex_);
    if constexpr (requires { pool_.segments(); }) return pool_.segments();
    return {};
  }

 private:
  const char* name_;
  mutable std::mutex mutex_;  // guards everything below
  Pool pool_;
  StreamUses uses_;
};

}  // namespace allocmark
