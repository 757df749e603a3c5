// The async backend: CUDA's stream-ordered allocator (cudaMallocAsync, cudaFreeAsync) on the
// device's default pool or on a pool of its own, with the pool attributes as config keys. Requests
// flow in, device memory flows out.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/backend/live_set.h"
#include "allocators/backend/stream_uses.h"
#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"

namespace allocmark {

// What a config string of this backend says. An attribute that is not named keeps CUDA's own
// default: threshold 0 (the pool gives unused memory back at every synchronisation) and all three
// ways of reuse on.
struct AsyncConf {
  bool own_pool = false;  // pool:own
  bool on_host = false;   // an own pool of pinned host memory: the backend host_pool
  // release_threshold_mb; UINT64_MAX for "max"
  std::optional<std::uint64_t> release_threshold_bytes = std::nullopt;
  std::optional<bool> reuse_follow_event_dependencies = std::nullopt;
  std::optional<bool> reuse_allow_opportunistic = std::nullopt;
  std::optional<bool> reuse_allow_internal_dependencies = std::nullopt;
  std::uint64_t max_size_bytes = 0;  // max_size_mb, of an own pool; 0: no limit
};

[[nodiscard]] ConfResult<AsyncConf> read_async_conf(std::string_view text);

// release_threshold_mb: a number of MiB, or max.
[[nodiscard]] ConfKey<AsyncConf> release_threshold_key();

class AsyncBackend final : public Backend {
 public:
  // On the current device, which must stay the current one of every thread that calls. Attributes
  // of the default pool belong to the process: they are set here and put back by the destructor.
  AsyncBackend(const AsyncConf& conf, std::uint64_t memory_limit_bytes);
  // Waits for the device, then gives back what is still live and empties the pool.
  ~AsyncBackend() override;

  // The caller owns the block, which is usable on `stream` from this point of the stream's order
  // on. Gives it back with deallocate, on any thread. Does not wait for running work; may block
  // while the pool takes memory from the driver. One lock is held across the call, as in PyTorch's
  // cudaMallocAsync backend: the limit needs it.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override;

  // Queues the free on `stream`; never blocks for the device. Where record_stream named other
  // streams, `stream` first waits (on the device) for an event on each of them. CUDA asks its users
  // for exactly that. The price: work queued later on `stream` waits too. PyTorch avoids it with an
  // extra stream on which such blocks are freed, at the price that they can be reused only after
  // the host has seen that stream finish.
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override;

  void record_stream(void* pointer, cudaStream_t stream) override;

  // Waits for the device, then cudaMemPoolTrimTo(0).
  void trim() override;

  // reserved_bytes is the pool's: of the default pool, all users of the process share it.
  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override;
  // The pool's own counters, by the names of cudaMemPoolAttr.
  [[nodiscard]] std::vector<NamedCounter> counters() const override;

 private:
  struct SavedAttribute {
    cudaMemPoolAttr attribute;
    std::uint64_t value;  // an int in the low half for the reuse attributes
  };

  void open_pool(const AsyncConf& conf, int device);
  void make_pool(const AsyncConf& conf, int device);
  void set_attributes(const AsyncConf& conf);
  void set_threshold(std::uint64_t threshold_bytes);
  void set_reuse(cudaMemPoolAttr attribute, std::optional<bool> allowed);
  void close() noexcept;
  [[nodiscard]] std::uint64_t pool_bytes(cudaMemPoolAttr attribute) const;

  mutable std::mutex mutex_;  // guards everything below
  cudaMemPool_t pool_ = nullptr;
  bool own_pool_ = false;
  cudaEvent_t event_ = nullptr;  // re-recorded for every wait: a wait keeps the state it saw
  std::vector<SavedAttribute> saved_;
  std::uint64_t memory_limit_bytes_ = 0;
  LiveSet live_;
  StreamUses uses_;
};

[[nodiscard]] BackendEntry async_entry();

}  // namespace allocmark
