// llama.cpp's pools as a backend has them: one for each stream, and which of them a block is of.
// Not thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/backend/stream_uses.h"
#include "allocators/cuda/device_memory.h"
#include "allocators/cuda/streams.h"

namespace allocmark::ggml {

// A Pool has allocate(size_bytes), which gives an address or nothing, deallocate(address), which is
// false for one that is not live, and add_segments(segments, stream).
template <class Pool>
class StreamPools {
 public:
  // `make()` makes a stream's pool at its first request.
  template <class Make>
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream, Make make) {
    if (size_bytes == 0) return {};
    if (size_bytes > kDeviceRequestBytesMax) return kOutOfMemory;
    std::unique_ptr<Pool>& pool = pools_[stream];
    if (pool == nullptr) pool = make();
    const std::optional<std::uint64_t> address = pool->allocate(size_bytes);
    if (address) pool_of_[*address] = pool.get();
    return result_at(address);
  }

  // Waits for streams that record_stream named for the block, of which llama.cpp knows nothing.
  // Throws where the pointer is no live block; `backend` is named then.
  void deallocate(void* pointer, const char* backend) {
    if (pointer == nullptr) return;
    wait_for_streams(uses_.take(pointer));
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    const auto found = pool_of_.find(address);
    if (found == pool_of_.end() || !found->second->deallocate(address))
      throw_invalid_pointer(backend);
    pool_of_.erase(found);
  }

  void record_stream(void* pointer, cudaStream_t stream) {
    if (pointer != nullptr) uses_.add(pointer, stream);
  }

  // Nothing before its first request.
  [[nodiscard]] const Pool* of(cudaStream_t stream) const {
    const auto found = pools_.find(stream);
    return found == pools_.end() ? nullptr : found->second.get();
  }
  [[nodiscard]] const std::map<cudaStream_t, std::unique_ptr<Pool>>& all() const { return pools_; }

  // By address.
  [[nodiscard]] std::vector<MemorySegment> segments() const {
    std::vector<MemorySegment> segments;
    for (const auto& [stream, pool] : pools_) pool->add_segments(segments, number_of(stream));
    std::ranges::sort(segments, {}, &MemorySegment::address);
    return segments;
  }

 private:
  std::map<cudaStream_t, std::unique_ptr<Pool>> pools_;
  std::unordered_map<std::uint64_t, Pool*> pool_of_;  // by address of a live block
  StreamUses uses_;
};

}  // namespace allocmark::ggml
