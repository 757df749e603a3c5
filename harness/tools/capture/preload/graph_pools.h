// Which private pool a capture, a graph and an executable graph belong to, by the runtime's
// handles. Calls flow in, under the recorder's lock; pools flow out.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_map>

namespace allocmark_capture {

// A pool of the trace of one device.
struct PoolOfGraph {
  int device = 0;
  std::array<std::uint64_t, 2> key{};  // {0, 0}: none, the graph has no memory of its own
  bool is_ours = false;                // of one graph, whose end is the pool's
  [[nodiscard]] bool is_any() const { return key[0] != 0 || key[1] != 0; }
};

struct CaptureUnderWay {
  std::uint64_t id = 0;  // the runtime's; 0: not known
  std::uint64_t stream = 0;
  PoolOfGraph pool{};
};

struct GraphPools {
  std::unordered_map<std::uint64_t, CaptureUnderWay> captures;  // by the stream's handle
  std::unordered_map<std::uint64_t, PoolOfGraph> graphs;        // that have a pool
  std::unordered_map<std::uint64_t, PoolOfGraph> execs;         // likewise
  std::uint64_t number_last = 0;                                // of pools of our own

  // The capture of that number; null where there is none, as for 0.
  [[nodiscard]] CaptureUnderWay* find(std::uint64_t capture_id) {
    if (capture_id == 0) return nullptr;
    for (auto& [stream, capture] : captures) {
      if (capture.id == capture_id) return &capture;
    }
    return nullptr;
  }
  [[nodiscard]] bool uses(const PoolOfGraph& pool) const {
    const auto has = [&](const auto& known) {
      return std::ranges::any_of(known, [&](const auto& one) {
        return one.second.device == pool.device && one.second.key == pool.key;
      });
    };
    return has(graphs) || has(execs);
  }
};

}  // namespace allocmark_capture
