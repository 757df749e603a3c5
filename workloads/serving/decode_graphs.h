// The CUDA graphs that a server captures at its start, one for each batch of a decode step: which
// batches, in which order, and into which private pools. A step then runs the smallest graph that
// holds it, and asks for no memory.
#pragma once

#include <cstdint>
#include <vector>

namespace allocmark {

enum class GraphPools : std::uint8_t {
  None,    // no graphs
  Shared,  // all graphs in one private pool, as vLLM and SGLang capture
  Own,     // a private pool for each graph, as torch.cuda.graph() without `pool`
};

struct GraphSettings {
  GraphPools pools = GraphPools::None;
  bool smallest_first = false;
  std::uint64_t batch_max = 0;  // tokens of the largest graph
};

// Tokens of each graph in the order of their captures: 1, 2, 4, every 8th below 256, every 16th
// from there on, up to batch_max. These are vLLM's sizes (cudagraph_capture_sizes since 0.11).
[[nodiscard]] std::vector<std::uint64_t> graph_batches(const GraphSettings& settings);

// The private pool of the graph with that place in graph_batches(); ids begin with 1.
[[nodiscard]] std::uint64_t graph_pool_id(const GraphSettings& settings, std::uint64_t place);

}  // namespace allocmark
