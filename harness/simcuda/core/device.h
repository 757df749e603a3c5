// One simulated GPU: heap, stream-ordered pools, virtual memory and streams over one budget of
// physical pages. In: the calls of a program with the caller's virtual time. Out: addresses,
// statuses and the driver's work, for a cost model.
//
// Not thread safe: the caller holds one lock per device around every call, also around streams().
// Nothing here keeps memory contents. Statuses Blocked mean that the host would wait for a gate
// that is closed: nothing has happened, open the gate (from another thread) and call again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "harness/simcuda/core/device_config.h"
#include "harness/simcuda/core/device_heap.h"
#include "harness/simcuda/core/graph_memory.h"
#include "harness/simcuda/core/memory_pool.h"
#include "harness/simcuda/core/outcome.h"
#include "harness/simcuda/core/physical_memory.h"
#include "harness/simcuda/core/reserved_area.h"
#include "harness/simcuda/core/stream_order.h"
#include "harness/simcuda/core/virtual_memory.h"
#include "harness/simcuda/order/memory_uses.h"

namespace simcuda {

using PoolId = std::uint32_t;  // never reused
inline constexpr PoolId kDefaultPool = 0;

struct PoolOutcome {
  Status status = Status::Ok;
  PoolId pool = 0;
};

struct StreamOutcome {
  Status status = Status::Ok;
  StreamId stream = 0;
  Work work = {};
};

// Which part of the device an address belongs to.
enum class MemoryKind : std::uint8_t { None, Heap, Pool, Mapped, Graph };
struct MemoryBlock {
  MemoryKind kind = MemoryKind::None;
  Range range;  // the block that holds the address; heap: rounded size, pool: requested size
  std::uint64_t asked_bytes = 0;  // what the driver says of its size
};

class Device {
 public:
  explicit Device(DeviceConfig config);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  // ---- cudaMalloc, cudaFree. The first never waits; the second waits for all work on the device
  // (work.host_wait_until_ns). It takes pool pointers too, without waiting. Address 0: Ok, no
  // waiting.
  [[nodiscard]] AllocationOutcome allocate(std::uint64_t size_bytes);
  [[nodiscard]] Outcome deallocate(std::uint64_t address, std::uint64_t now_ns);

  // Frees all that allocate gave, as the end of a context does: blocks of pools, memory handles and
  // their mappings stay. Returns the ranges. Work on the device has ended.
  [[nodiscard]] std::vector<Range> free_heap();

  // ---- stream-ordered pools. The default pool comes into being (and takes its addresses) with its
  // first mention. size_bytes_max 0: the device's memory.
  [[nodiscard]] PoolOutcome create_pool(std::uint64_t size_bytes_max);
  // A pool of the host's memory, which takes that of the device only where the two are one. The
  // caller gives its addresses, an even number of chunks, and keeps them until holds_pool says
  // false. Half of them can have memory at once, as in a pool of the device.
  [[nodiscard]] PoolOutcome create_host_pool(Range range);
  // Also of a destroyed pool whose last block is not free yet.
  [[nodiscard]] bool holds_pool(PoolId pool) const;
  // The pool can no longer be named; blocks still live keep it until they are freed.
  [[nodiscard]] Outcome destroy_pool(PoolId pool, std::uint64_t now_ns);
  [[nodiscard]] AllocationOutcome allocate_async(std::uint64_t size_bytes, StreamId stream,
                                                 PoolId pool, std::uint64_t now_ns);
  // Any pool's block; InvalidValue for every other address.
  [[nodiscard]] Outcome deallocate_async(std::uint64_t address, StreamId stream,
                                         std::uint64_t now_ns);
  [[nodiscard]] Outcome trim_pool(PoolId pool, std::uint64_t keep_bytes);
  // Attributes and usage of a pool; null where there is no such pool. Valid until the pool is
  // destroyed.
  [[nodiscard]] MemoryPool* pool(PoolId pool);

  // ---- streams. Work, events and queries go straight to streams(): no pool is concerned.
  [[nodiscard]] StreamOrder& streams() { return streams_; }
  // Every fourth stream, from the second on, takes a page of the heap. Measured without
  // destructions; here only more streams than ever before take one.
  [[nodiscard]] StreamOutcome create_stream(StreamKind kind, std::uint64_t now_ns);
  [[nodiscard]] Outcome destroy_stream(StreamId stream, std::uint64_t now_ns);
  // The host waits until work.host_wait_until_ns; then pools release what has become free.
  [[nodiscard]] Outcome synchronize_stream(StreamId stream, std::uint64_t now_ns);
  [[nodiscard]] Outcome synchronize_event(EventId event, std::uint64_t now_ns);
  [[nodiscard]] Outcome synchronize_device(std::uint64_t now_ns);

  // ---- graphs. Frees of their blocks come by deallocate and deallocate_async too. Made on first
  // use.
  [[nodiscard]] GraphMemory& graph_memory();

  // ---- virtual memory management
  [[nodiscard]] VirtualMemory& virtual_memory() { return virtual_memory_; }

  // ---- the order check (see harness/simcuda/order). Off until it begins; beginning again forgets
  // all uses. It changes no answer of this class.
  void begin_order_check();
  void end_order_check();
  // The block [address, address + size_bytes) is `owner`'s from now on, for use on `stream`: the
  // use of another owner that nothing orders before that.
  [[nodiscard]] std::optional<order::UnorderedUse> take_memory(Range block, order::Owner owner,
                                                               StreamId stream);
  void give_memory_back(Range block, order::Owner owner, std::span<const StreamId> streams);

  // ---- questions
  [[nodiscard]] std::uint64_t free_bytes() const { return memory_.free_bytes(); }
  [[nodiscard]] std::uint64_t total_bytes() const { return memory_.total_bytes(); }
  [[nodiscard]] std::uint64_t used_bytes() const { return memory_.used_bytes(); }
  // The host's side of the memory, where the two share it.
  [[nodiscard]] PhysicalMemory& memory() { return memory_; }
  [[nodiscard]] PhysicalMemory::Extremes take_extremes() { return memory_.take_extremes(); }
  // Of all stream-ordered pools.
  [[nodiscard]] std::size_t free_block_count() const;

  // ---- pinned memory of the host, which is the device's where the two are one. False where
  // the host has no more of it.
  [[nodiscard]] bool take_pinned(std::uint64_t size_bytes);
  void return_pinned(std::uint64_t size_bytes);
  // What is pinned now: taken as above, and by pools of the host where its memory is its own.
  [[nodiscard]] std::uint64_t pinned_bytes() const;
  [[nodiscard]] const DeviceConfig& config() const { return config_; }
  [[nodiscard]] MemoryBlock find(std::uint64_t address) const;

 private:
  struct PoolSlot {
    PoolId id = 0;
    bool named = true;     // false: destroyed, waiting for its last block
    bool in_area = false;  // its addresses are of `area_`
    PhysicalMemory* memory = nullptr;
    std::unique_ptr<MemoryPool> pool = {};
  };
  [[nodiscard]] PoolOutcome add_pool(PoolId id, std::uint64_t size_bytes_max);
  void add_slot(PoolSlot slot, const MemoryPool::Setup& setup);
  [[nodiscard]] MemoryPool* pool_holding(std::uint64_t address) const;
  void reclaim(const PhysicalMemory& memory, std::optional<PoolId> except, Work& work);
  void give_back_stream_pages(Work& work);
  [[nodiscard]] bool is_drivers_own(std::uint64_t address) const;
  [[nodiscard]] Outcome after_wait(const Finish& finish, std::uint64_t now_ns,
                                   const FinishedThrough& finished_through,
                                   bool whole_device = false);
  void retire_pools(std::uint64_t now_ns, Work& work);
  void forget_ended_streams(std::uint64_t now_ns);
  // Mapped memory by handle and offset, so that two addresses of one place are one place.
  [[nodiscard]] std::vector<order::Piece> pieces_of(Range block) const;
  void note_pool_took(std::uint64_t address, const MemoryPool& pool,
                      std::optional<StreamId> stream);

  void note_host_saw_device();

  struct OrderCheck {
    order::HappensBefore order;
    order::MemoryUses uses{order};
  };
  std::unique_ptr<OrderCheck> check_;  // null: off

  DeviceConfig config_;
  PhysicalMemory memory_;
  PhysicalMemory host_memory_;      // pinned, where the host has memory of its own
  std::uint64_t pinned_bytes_ = 0;  // outside of pools
  StreamOrder streams_;
  PoolStreams pool_streams_;
  ReservedArea area_;
  DeviceHeap heap_;
  VirtualMemory virtual_memory_;
  std::unique_ptr<GraphMemory> graph_memory_;  // null until a graph allocates
  std::vector<PoolSlot> pools_;                // by creation
  PoolId next_pool_ = 1;
  std::size_t unnamed_pool_count_ = 0;
  std::uint64_t stream_count_;               // live, the legacy one not counted
  std::uint64_t stream_count_high_;          // the most since memory last ran short
  std::vector<std::uint64_t> stream_pages_;  // addresses, oldest first
};

}  // namespace simcuda
