// What captures of CUDA graphs take of the card. A graph's requests are those between pool_begin on
// one stream and pool_end. Steps and the bytes that the device has in use flow in; sums flow out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_set>

#include "base/bytes.h"
#include "harness/core/replay/trace_compiler.h"
#include "workloads/trace/source.h"

namespace allocmark {

struct CaptureFacts {
  std::uint64_t graph_count = 0;
  std::uint64_t request_count = 0;  // of all graphs
  // What PyTorch's allocator took of the device during the captures: all, the first, the second.
  std::uint64_t bytes = 0, first_bytes = 0, second_bytes = 0;
};

// Nodes of a graph for each of its requests: 14,726 for 9,894, a Llama's decode steps.
inline constexpr double kNodesPerRequest = 1.49;
// Of a graph's node outside of any allocator: an H100, driver 580.159.04
// (results/published/2026-11-26-h100-pools).
inline constexpr std::uint64_t kNodeBytes = 3'130;

// What the graphs themselves take outside of PyTorch's allocator, bytes.
[[nodiscard]] inline std::uint64_t graphs_own_bytes(const CaptureFacts& captures) {
  const auto requests = static_cast<double>(captures.request_count);
  return static_cast<std::uint64_t>(requests * kNodesPerRequest) * kNodeBytes;
}

// What vLLM takes the captures for: the first, and for each further one the second, at least 1 MiB.
[[nodiscard]] inline std::uint64_t vllm_rule_bytes(const CaptureFacts& captures) {
  if (captures.graph_count == 0) return 0;
  return captures.first_bytes + std::max(captures.second_bytes, kMiB) * (captures.graph_count - 1);
}

// Private pools that the events name; reads them to the end.
[[nodiscard]] inline std::uint64_t pool_count_of(EventSource& events) {
  std::unordered_set<std::uint64_t> pools;
  for (std::span<const Event> batch = events.next(); !batch.empty(); batch = events.next()) {
    for (const Event& event : batch) {
      if (event.kind == EventKind::PoolBegin || event.kind == EventKind::PoolCreate) {
        pools.insert(event.id);
      }
    }
  }
  return pools.size();
}

// Counts along a replay. Pools of every stream (a MemPool's) are no captures.
class CaptureMeter {
 public:
  // Whether the device must be read before this step, or after it.
  [[nodiscard]] bool begins_at(const ReplayStep& step) const {
    return step.kind == EventKind::PoolBegin && step.size_bytes == 0 && !pool_;
  }

  [[nodiscard]] bool ends_at(const ReplayStep& step) const {
    return step.kind == EventKind::PoolEnd && pool_ == step.slot;
  }

  void begin(const ReplayStep& step, std::uint64_t used_bytes) {
    pool_ = step.slot;
    before_bytes_ = used_bytes;
  }

  void end(std::uint64_t used_bytes) {
    const std::uint64_t taken_bytes = used_bytes - std::min(used_bytes, before_bytes_);
    ++facts_.graph_count;
    facts_.bytes += taken_bytes;
    if (facts_.graph_count == 1) facts_.first_bytes = taken_bytes;
    if (facts_.graph_count == 2) facts_.second_bytes = taken_bytes;
    pool_.reset();
  }

  void count(const ReplayStep& step) {
    if (pool_ && step.kind == EventKind::Alloc) ++facts_.request_count;
  }

  [[nodiscard]] const CaptureFacts& facts() const { return facts_; }

 private:
  CaptureFacts facts_;
  std::optional<std::uint32_t> pool_;  // while its graph is captured
  std::uint64_t before_bytes_ = 0;
};

}  // namespace allocmark
