// What streams are captured into now: shared by the files of capture.h, and by no others. Guarded
// by graph_mutex().
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <unordered_map>
#include <vector>

#include "harness/simcuda/shim/graph.h"

namespace simcuda {

struct CapturedStream {
  std::vector<SimGraphNode*> dependencies;  // of the next node
  std::vector<cudaGraphNode_t> told;        // the same, as cudaStreamGetCaptureInfo gives them
};

struct Capture {
  std::uint64_t id = 0;
  const SimStream* origin = nullptr;
  std::uint32_t thread_ordinal = 0;  // where it began
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool invalidated = false;
  bool owns_graph = true;
  SimulatedDevice* device = nullptr;
  SimGraph* graph = nullptr;
  std::map<const SimStream*, CapturedStream> streams;
  std::unordered_map<const SimEvent*, std::vector<SimGraphNode*>> events;
};

struct Captures {
  std::list<Capture> all;
  std::unordered_map<const SimStream*, Capture*> by_stream;
  std::uint64_t next_id = 1;
};
[[nodiscard]] Captures& captures();

// Null where the stream is not captured.
[[nodiscard]] Capture* capture_of(const SimStream* stream);
[[nodiscard]] inline bool is_blocking(const SimStream& stream) {
  return (stream.flags & cudaStreamNonBlocking) == 0;
}
inline void add_once(std::vector<SimGraphNode*>& to, const std::vector<SimGraphNode*>& nodes) {
  for (SimGraphNode* const node : nodes) {
    if (std::ranges::find(to, node) == to.end()) to.push_back(node);
  }
}
void join_capture(Capture& capture, const SimStream& stream,
                  std::vector<SimGraphNode*> dependencies);

}  // namespace simcuda
