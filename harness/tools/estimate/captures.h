// What captures of CUDA graphs take of the card. A graph's requests are those between pool_begin on
// one stream and pool_end. Steps and the bytes that the device has in use flow in; sums flow out.
#pragma once

#include <cstdint>
#include <optional>

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
[[nodiscard]] std::uint64_t graphs_own_bytes(const CaptureFacts& captures);

// What vLLM takes the captures for: the first, and for each further one the second, at least 1 MiB.
[[nodiscard]] std::uint64_t vllm_rule_bytes(const CaptureFacts& captures);

// Private pools that the events name; reads them to the end.
[[nodiscard]] std::uint64_t pool_count_of(EventSource& events);

// Counts along a replay. Pools of every stream (a MemPool's) are no captures.
class CaptureMeter {
 public:
  // Whether the device must be read before this step, or after it.
  [[nodiscard]] bool begins_at(const ReplayStep& step) const;
  [[nodiscard]] bool ends_at(const ReplayStep& step) const;
  void begin(const ReplayStep& step, std::uint64_t used_bytes);
  void end(std::uint64_t used_bytes);
  void count(const ReplayStep& step);
  [[nodiscard]] const CaptureFacts& facts() const { return facts_; }

 private:
  CaptureFacts facts_;
  std::optional<std::uint32_t> pool_;  // while its graph is captured
  std::uint64_t before_bytes_ = 0;
};

}  // namespace allocmark
