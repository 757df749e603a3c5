// One stream-ordered memory pool (cudaMemPool_t), placed and backed as the driver does it. Free
// blocks wait in the list of the stream they were freed on ("pending") until the host can tell that
// the free has happened; then they are common ("main"). Memory is attached in 32 MiB chunks only
// where a block needs it. In: sizes, streams, frees, synchronisations. Out: addresses and the
// chunks that moved. Pools of a device are joined by MemoryPools.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "harness/simcuda/core/chunk_set.h"
#include "harness/simcuda/core/free_blocks.h"
#include "harness/simcuda/core/outcome.h"
#include "harness/simcuda/core/physical_memory.h"
#include "harness/simcuda/core/pool_streams.h"
#include "harness/simcuda/core/stream_order.h"

namespace simcuda {

struct PoolAttributes {
  std::uint64_t release_threshold_bytes = 0;
  bool follow_event_dependencies = true;
  bool allow_opportunistic = true;
  bool allow_internal_dependencies = true;
};

// How far each stream is known to have come; what a synchronisation tells.
using FinishedThrough = std::function<Position(StreamId)>;

class MemoryPool {
 public:
  struct Setup {
    Range range;                        // multiples of 32 MiB
    std::uint64_t chunk_count_max = 0;  // of this pool (maxSize)
    bool is_host = false;               // its chunks are the host's memory
  };
  // `known_streams` is the device's; `on_shortage` makes the other pools give back their free
  // chunks. All four have to outlive the pool.
  MemoryPool(Setup setup, PhysicalMemory& memory, StreamOrder& streams, PoolStreams& known_streams,
             std::function<void(Work&)> on_shortage);
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool();  // gives every chunk back to the device

  // The work of giving back so many chunks.
  void count_returned(std::uint64_t chunk_count, Work& work) const {
    (setup_.is_host ? work.host_chunks_returned : work.chunks_returned) += chunk_count;
  }
  [[nodiscard]] AllocationOutcome allocate(std::uint64_t size_bytes, StreamId stream,
                                           std::uint64_t now_ns);
  // A live block of this pool, else InvalidValue. `stream` is the one of the free.
  [[nodiscard]] Outcome deallocate_on(std::uint64_t address, StreamId stream, std::uint64_t now_ns);
  // cudaFree of a block of the pool: it is common at once.
  [[nodiscard]] Outcome deallocate_now(std::uint64_t address);

  // First part of what follows a synchronisation; true where blocks became common.
  bool collect(const FinishedThrough& finished_through, Work& work);
  // Second part, for every pool when any block of any pool became common; a wait for the whole
  // device also settles a threshold that was set.
  void settle(bool any_moved, bool whole_device, Work& work);
  // Gives whole free chunks back until at most `limit_bytes` are reserved.
  void release(std::uint64_t limit_bytes, Work& work);
  [[nodiscard]] Outcome trim(std::uint64_t keep_bytes);

  [[nodiscard]] const PoolAttributes& attributes() const { return attributes_; }
  // Takes effect with the next wait for the device, or for a stream that frees a block.
  void set_release_threshold(std::uint64_t threshold_bytes);
  void set_follow_event_dependencies(bool on) { attributes_.follow_event_dependencies = on; }
  void set_allow_opportunistic(bool on) { attributes_.allow_opportunistic = on; }
  void set_allow_internal_dependencies(bool on) { attributes_.allow_internal_dependencies = on; }
  // Used: as requested, not rounded; cudaFree does not lower it.
  [[nodiscard]] MemoryUsage usage() const;
  void reset_reserved_high();
  void reset_used_high();

  [[nodiscard]] Range range() const { return setup_.range; }
  [[nodiscard]] std::size_t live_count() const { return live_.size(); }
  // The live block that holds `address`: its range by requested size; empty where there is none.
  [[nodiscard]] Range find(std::uint64_t address) const;
  // In main and in all streams' lists: among so many the driver looks.
  [[nodiscard]] std::size_t free_block_count() const;
  [[nodiscard]] bool has_pending(StreamId stream) const;
  // No live block, and every free is known to have happened.
  [[nodiscard]] bool idle(std::uint64_t now_ns);
  // A stream that was destroyed and has nothing pending: its id will mean another stream.
  void forget_stream(StreamId stream);

 private:
  struct Pending {
    StreamId stream = 0;
    Position last_free = 0;
    FreeBlocks blocks = {};
  };
  Pending& pending_of(StreamId stream);
  // Steps of an allocation, in the order in which they are tried; 0 where the step finds nothing.
  [[nodiscard]] std::uint64_t place(std::uint64_t size_bytes, StreamId stream, std::uint64_t now_ns,
                                    Work& work);
  [[nodiscard]] std::uint64_t take_backed(std::uint64_t size_bytes);
  // A block of another stream whose free lies no later there than `until` says of that stream.
  template <class Until>
  [[nodiscard]] std::uint64_t take_freed(std::uint64_t size_bytes, StreamId stream, Until until);
  [[nodiscard]] std::uint64_t take_new(std::uint64_t size_bytes, Work& work);
  [[nodiscard]] std::uint64_t take_and_wait(std::uint64_t size_bytes, StreamId stream,
                                            std::uint64_t now_ns, Work& work);
  // Calls `moved` with what has become of blocks that `until` lets become common.
  template <class Until, class Moved>
  void move_freed(Until until, Moved moved);
  // Main, with its index of backed blocks and free chunks.
  FreeBlock add_to_main(Range range);
  void index_main(const FreeBlock& block);
  void remove_from_main(const FreeBlock& block);
  void cut_main(const FreeBlock& block, std::uint64_t size_bytes);
  // Chunks.
  [[nodiscard]] std::uint64_t gather(std::uint64_t chunk_count, Work& work);
  void take_chunks(std::uint64_t chunk_count, std::uint64_t& gathered_count, Work& work);
  void unmap_free_chunk(std::uint64_t chunk);
  void release_until(std::uint64_t limit_bytes, ChunkSpan within, Work& work);
  [[nodiscard]] ChunkSpan all_chunks() const;
  [[nodiscard]] ChunkSpan whole_chunks(Range range) const;
  [[nodiscard]] ChunkSpan touched_chunks(Range range) const;
  [[nodiscard]] std::uint64_t reserved_bytes() const;

  Setup setup_;
  PhysicalMemory& memory_;
  StreamOrder& streams_;
  PoolStreams& known_streams_;
  std::function<void(Work&)> on_shortage_;
  PoolAttributes attributes_;
  bool threshold_was_set_ = false;  // since the last wait for the whole device
  FreeBlocks main_;
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>>
      backed_main_;  // length, order, lo
  ChunkSet mapped_;
  ChunkSet free_mapped_;          // mapped, and wholly inside one block of main
  std::vector<Pending> pending_;  // of the streams used here, in their device's order
  std::map<std::uint64_t, std::uint64_t> live_;  // address -> requested size
  std::uint64_t used_bytes_ = 0;
  std::uint64_t used_bytes_high_ = 0;
  std::uint64_t reserved_bytes_high_ = 0;
};

}  // namespace simcuda
