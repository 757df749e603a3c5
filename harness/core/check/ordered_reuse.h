// The check that memory comes to its next user after the former one, on simcuda: exact, since the
// simulated runtime knows every event, wait and synchronisation, the allocator's own included.
// Blocks flow in as the program takes and gives them back; reuse that nothing orders flows out. A
// block is in use on its stream, and on every stream that record_stream named, until its free. This
// file checks and is never used in a timed pass.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/core/check/shadow_heap.h"
#include "harness/core/replay/simcu_api.h"

namespace allocmark {

class OrderedReuse {
 public:
  // The streams by index; they must outlive this object. One at a time in a process: simcuda keeps
  // the uses.
  OrderedReuse(const SimcuApi& simcu, std::span<const cudaStream_t> streams);
  ~OrderedReuse();
  OrderedReuse(const OrderedReuse&) = delete;
  OrderedReuse& operator=(const OrderedReuse&) = delete;

  // The block was handed out. One line where a former use of its bytes is not ordered before it:
  // both users, and what is missing between them.
  [[nodiscard]] std::optional<std::string> take(const ShadowBlock& block);
  // The program told the allocator of a stream.
  void record(std::uint64_t id, std::uint32_t stream);
  // Before the allocator's free.
  void give_back(const ShadowBlock& block);

 private:
  [[nodiscard]] std::string text(const ShadowBlock& block, const SimcuUnorderedUse& former) const;
  [[nodiscard]] std::string stream_name(void* stream) const;

  SimcuApi simcu_;
  std::span<const cudaStream_t> streams_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> recorded_streams_by_id_;
  std::vector<void*> used_on_;  // scratch
};

}  // namespace allocmark
