// llama.cpp's pools as a backend has them: one for each stream, and which of them a block is of.
// Not thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "allocators/cuda/driver.h"
#include "allocators/cuda/streams.h"
#include "allocators/ggml/pools.h"

namespace allocmark::ggml {

// What a pool gives.
[[nodiscard]] inline std::uint64_t address_of(std::uint64_t address) { return address; }
[[nodiscard]] inline std::uint64_t address_of(const Buffer& buffer) { return buffer.address; }

// A Pool has allocate(size_bytes), which gives a buffer, an address or nothing, and
// deallocate(address), which is false for one that is not live.
template <class Pool>
class StreamPools {
 public:
  // `make()` makes a stream's pool at its first request.
  template <class Make>
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                      caching::Stream stream, Make make) {
    std::unique_ptr<Pool>& pool = pools_[stream];
    if (pool == nullptr) pool = make();
    const auto block = pool->allocate(size_bytes);
    if (!block) return std::nullopt;
    pool_of_[address_of(*block)] = pool.get();
    return address_of(*block);
  }

  // Waits for streams that record_stream named for the block, of which llama.cpp knows nothing.
  // False where the address is no live block's.
  [[nodiscard]] bool deallocate(std::uint64_t address, std::span<const cudaStream_t> others) {
    wait_for_streams(others);
    const auto found = pool_of_.find(address);
    if (found == pool_of_.end() || !found->second->deallocate(address)) return false;
    pool_of_.erase(found);
    return true;
  }

  // Nothing before its first request.
  [[nodiscard]] const Pool* of(caching::Stream stream) const {
    const auto found = pools_.find(stream);
    return found == pools_.end() ? nullptr : found->second.get();
  }
  [[nodiscard]] const std::map<caching::Stream, std::unique_ptr<Pool>>& all() const {
    return pools_;
  }

 private:
  std::map<caching::Stream, std::unique_ptr<Pool>> pools_;
  std::unordered_map<std::uint64_t, Pool*> pool_of_;  // by address of a live block
};

}  // namespace allocmark::ggml
