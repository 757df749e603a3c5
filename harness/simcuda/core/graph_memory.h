// Memory of graphs on one device. Every graph has addresses of its own, which stay the same from
// launch to launch; graphs that cannot run at the same time share the chunks of memory behind them.
// In: allocations and frees of graphs, launches on streams. Out: addresses, chunks taken and given
// back, blocks that a launch left unfreed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "harness/simcuda/core/outcome.h"
#include "harness/simcuda/core/physical_memory.h"
#include "harness/simcuda/core/reserved_area.h"
#include "harness/simcuda/core/stream_order.h"
#include "harness/simcuda/core/units.h"

namespace simcuda {

using ArenaId = std::uint64_t;  // of one graph's addresses; never reused, 0 is none

class GraphMemory {
 public:
  // `on_shortage` makes the device's pools give back their free chunks. All have to outlive this.
  GraphMemory(PhysicalMemory& memory, StreamOrder& streams, ReservedArea& area,
              std::function<void(Work&)> on_shortage);
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  // ---- addresses. An arena lives while somebody holds it (its graph, what was instantiated from
  // it) or a block of it is not freed.
  [[nodiscard]] ArenaId create_arena();  // held once
  void hold(ArenaId arena);
  void let_go(ArenaId arena);
  // The address of a new allocation, which may share bytes with no range of `taken`; nothing where
  // the address space has no room. 512 B units, chunks of 32 MiB.
  [[nodiscard]] std::optional<std::uint64_t> place(ArenaId arena, std::uint64_t size_bytes,
                                                   std::span<const Range> taken);
  // A graph that has the arena `by` (0: none) is going to free the allocation at the address. False
  // where there is no such allocation, or where a graph frees it already that excludes this one.
  [[nodiscard]] bool plan_free(std::uint64_t address, ArenaId by);
  // The latest allocation of any graph that holds the address, freed or not.
  [[nodiscard]] Range planned_block(std::uint64_t address) const;
  [[nodiscard]] bool holds(std::uint64_t address) const;

  // ---- launches. Puts memory behind the arena for work of `stream`. Mapped chunks that can stay
  // do; work.chunks_mapped counts the others. OutOfMemory changes nothing for good.
  [[nodiscard]] Outcome map(ArenaId arena, StreamId stream, std::uint64_t now_ns);
  // That work ends with the stream's present position.
  void ran(ArenaId arena, StreamId stream);
  // What was instantiated is gone: its memory stays reserved.
  void unmap(ArenaId arena);
  // Gives back the chunks that no unfreed block and no running graph needs.
  [[nodiscard]] Outcome trim(std::uint64_t now_ns);

  // ---- blocks: between the allocation and the free of one launch. False where the arena has no
  // such addresses, or they are not freed yet.
  [[nodiscard]] bool begin_block(ArenaId arena, Range range);
  // Freed on a stream (in its order) or at once. False where the address is no such block's.
  [[nodiscard]] bool end_block(std::uint64_t address, StreamId stream, std::uint64_t now_ns);
  [[nodiscard]] bool end_block(std::uint64_t address);
  // The unfreed block that holds the address, empty where there is none.
  [[nodiscard]] Range find_block(std::uint64_t address) const;

  // NVIDIA's driver counts memory as used until it is trimmed.
  [[nodiscard]] MemoryUsage usage() const { return usage_; }
  void reset_used_high() { usage_.used_bytes_high = usage_.used_bytes; }
  void reset_reserved_high() { usage_.reserved_bytes_high = usage_.reserved_bytes; }

 private:
  static constexpr std::size_t kNoChunk = ~std::size_t{0};
  struct Chunk {
    bool reserved = false;  // false: given back, its place is used again
    StreamId stream = 0;    // after whose work it may be used
    Position position = 0;
    std::uint32_t pin_count = 0;      // unfreed blocks on it
    std::uint32_t mapping_count = 0;  // arenas that show it
  };
  enum class FreedBy : std::uint8_t { Nobody, OwnGraph, OtherGraph };
  struct Allocation {
    Range range;
    FreedBy freed_by = FreedBy::Nobody;
  };
  struct Segment {
    Range range;
    std::vector<std::size_t> chunks;  // kNoChunk where nothing is behind it
  };
  struct Arena {
    std::uint32_t hold_count = 1;
    std::uint32_t live_count = 0;
    std::vector<Segment> segments;
    std::vector<Allocation> allocations;

    // Calls `visit` with the chunk behind each 32 MiB of the addresses.
    template <class Visit>
    void each_chunk(Visit visit) {
      for (Segment& segment : segments) {
        for (std::size_t& chunk : segment.chunks) visit(chunk);
      }
    }
  };
  struct Block {
    std::uint64_t hi = 0;
    ArenaId arena = 0;
    std::vector<std::size_t> chunks;
  };

  [[nodiscard]] bool is_done(const Chunk& chunk, std::uint64_t now_ns);
  [[nodiscard]] std::size_t choose_chunk(StreamId stream, std::uint64_t now_ns,
                                         const std::vector<bool>& in_use, Work& work);
  [[nodiscard]] std::size_t take_chunk(Work& work);
  void drop(std::size_t& place);
  void unpin(std::map<std::uint64_t, Block>::iterator block);
  void forget_if_unused(ArenaId arena);
  [[nodiscard]] const Arena* arena_holding(std::uint64_t address) const;
  void note_usage();

  PhysicalMemory& memory_;
  StreamOrder& streams_;
  ReservedArea& area_;
  std::function<void(Work&)> on_shortage_;
  std::vector<Chunk> chunks_;
  std::map<ArenaId, Arena> arenas_;
  std::map<std::uint64_t, ArenaId> segments_;  // lo -> whose
  std::map<std::uint64_t, Block> blocks_;      // unfreed, by lo
  ArenaId next_arena_ = 1;
  MemoryUsage usage_;
};

}  // namespace simcuda
