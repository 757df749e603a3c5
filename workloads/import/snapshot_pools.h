// The private pools of a snapshot's history: of CUDA graphs and of MemPools. Memory of one pool
// never serves a request of another. Before PyTorch 2.12 entries do not name their pool; then it
// follows from the segments.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "workloads/import/snapshot_history.h"

namespace allocmark {

// The pool of a segment, by the entry that took it from the device; others are of the common one.
using PoolsOfGrowth = std::unordered_map<std::uint64_t, std::uint32_t>;
inline constexpr std::uint64_t kNoGrowth = ~std::uint64_t{0};

// Whether a CUDA graph made the pool, because it was given none. Its id begins with a number, which
// is 0 in ids of MemPool and graph_pool_handle().
[[nodiscard]] bool is_of_graph(const MemorySnapshot& snapshot, std::uint32_t pool);
[[nodiscard]] bool is_request(SnapshotAction action);  // of the program: allocates or gives back
[[nodiscard]] bool is_growth(SnapshotAction action);   // the allocator took memory
[[nodiscard]] bool is_release(SnapshotAction action);  // the allocator gave memory back

// As far as segments tell that are still there at the end; and, of expandable segments that are
// not, as far as their times tell. Pools that no segment names come after those of
// the snapshot.
[[nodiscard]] PoolsOfGrowth final_pools(const DeviceHistory& history);

// Which pool the memory at an address is of, while a history goes on.
class PoolAreas {
 public:
  PoolAreas(const DeviceHistory& history, const PoolsOfGrowth& pools)
      : history_(history), pools_(pools) {}

  struct Area {
    std::uint64_t end = 0;
    std::uint32_t pool = 0;
    std::uint64_t growth_index = kNoGrowth;
    bool is_small = false;
    bool expandable = false;
  };
  // A segment, or the mapped range of an expandable one that the address is in.
  struct Region : Area {
    std::uint64_t begin = 0;
  };
  [[nodiscard]] Region region_at(std::uint64_t address) const;

  // Memory that was there before the history: all segments of the end.
  void add_final();
  void add(std::uint64_t address, std::uint64_t size_bytes, std::uint32_t pool) {
    put(address, {.end = address + size_bytes, .pool = pool});
  }
  // The entries [begin, index) are what the allocator did for the request at `index`: the memory
  // that it took is of the request's pool, which is the answer.
  std::uint32_t take(std::uint64_t begin, std::uint64_t index);
  [[nodiscard]] std::uint32_t pool_at(std::uint64_t address) const;
  // The entry that took the memory at this address; kNoGrowth where none did.
  [[nodiscard]] std::uint64_t growth_at(std::uint64_t address) const;

 private:
  // Takes the place of all that overlaps: segments that were given back since.
  void put(std::uint64_t address, const Area& area);
  [[nodiscard]] const Area* find(std::uint64_t address) const;
  [[nodiscard]] std::uint32_t pool_of(std::uint64_t begin, std::uint64_t index) const;

  const DeviceHistory& history_;
  const PoolsOfGrowth& pools_;
  std::map<std::uint64_t, Area> areas_;  // segments and mapped ranges, by address
};

// Where there are none, everything is of the common pool.
[[nodiscard]] bool has_private_pools(const DeviceHistory& history, const PoolsOfGrowth& pools);

// By entry; for requests and released memory. Empty where everything is of the common pool.
[[nodiscard]] std::vector<std::uint16_t> entry_pools(const DeviceHistory& history,
                                                     const PoolsOfGrowth& pools);

}  // namespace allocmark
