// Which streams, other than its own, have used a live block: what record_stream was told and
// deallocate must wait for. Shared by the backends whose allocator has no notion of it. Not
// thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace allocmark {

class StreamUses {
 public:
  void add(void* pointer, cudaStream_t stream) {
    std::vector<cudaStream_t>& streams = streams_by_pointer_[pointer];
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
      streams.push_back(stream);
    }
  }

  // Takes the streams of `pointer` out; most blocks have none, and then this costs one comparison.
  [[nodiscard]] std::vector<cudaStream_t> take(void* pointer) {
    if (streams_by_pointer_.empty()) [[likely]] {
      return {};
    }
    const auto found = streams_by_pointer_.find(pointer);
    if (found == streams_by_pointer_.end()) {
      return {};
    }
    std::vector<cudaStream_t> streams = std::move(found->second);
    streams_by_pointer_.erase(found);
    return streams;
  }

  void clear() { streams_by_pointer_.clear(); }

 private:
  std::unordered_map<void*, std::vector<cudaStream_t>> streams_by_pointer_;
};

}  // namespace allocmark
