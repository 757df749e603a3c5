// cudaMalloc's heaps, placed as the driver places them. The large heap cuts requests of whole 2 MiB
// pages from chunks (newest chunk that fits; in it best fit, lowest offset); the small heap cuts
// the rest in 512 B units from 2 MiB slabs that it takes from the large one (best fit over all
// slabs, first inserted first). In: sizes, addresses to free. Out: addresses. Page counts go to
// PhysicalMemory; a request that fails changes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "harness/simcuda/core/address_ranges.h"
#include "harness/simcuda/core/device_config.h"
#include "harness/simcuda/core/free_blocks.h"
#include "harness/simcuda/core/large_chunks.h"
#include "harness/simcuda/core/outcome.h"
#include "harness/simcuda/core/physical_memory.h"

namespace simcuda {

class DeviceHeap {
 public:
  // `on_shortage` is called once when pages are short, before the request fails; it may return
  // pages to `memory` and adds what it did to the Work. `memory` and `area` have to outlive the
  // heap.
  DeviceHeap(const DeviceConfig& config, PhysicalMemory& memory, ReservedArea& area,
             std::function<void(Work&)> on_shortage);

  // Size 0: Ok and address 0.
  [[nodiscard]] AllocationOutcome allocate(std::uint64_t size_bytes);
  // What allocate gave; InvalidValue for anything else. Address 0: Ok, nothing happens.
  [[nodiscard]] Outcome deallocate(std::uint64_t address);

  // Whole pages of the large heap's addresses without memory behind them, for a reservation.
  // `alignment_bytes`: a power of two, a page at least. Nothing where addresses are used up.
  [[nodiscard]] std::optional<std::uint64_t> reserve_addresses(std::uint64_t size_bytes,
                                                               std::uint64_t alignment_bytes) {
    return chunks_.take_reserved(size_bytes, alignment_bytes);
  }
  // What reserve_addresses gave, whole.
  void give_addresses(Range range) { chunks_.give(range); }
  // Where the chunk of what reserve_addresses gave ends.
  [[nodiscard]] std::uint64_t chunk_end(std::uint64_t address) const {
    return chunks_.chunk_of(address).hi;
  }
  // Whether memory of allocate lies in the range, a slab's as a whole.
  [[nodiscard]] bool has_memory(Range range) const;

  struct Allocation {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;   // rounded up; 0: there is none
    std::uint64_t asked_bytes = 0;  // by the program
  };
  // The live allocation that holds `address`, if any.
  [[nodiscard]] Allocation find(std::uint64_t address) const;
  // The addresses of all live allocations; not those of reserve_addresses.
  [[nodiscard]] std::vector<std::uint64_t> live_addresses() const;
  [[nodiscard]] std::size_t live_count() const { return small_.size() + large_.size(); }

 private:
  struct Sizes {
    std::uint64_t size_bytes = 0;
    std::uint64_t asked_bytes = 0;
  };
  [[nodiscard]] AllocationOutcome take_large(std::uint64_t size_bytes);
  void give_large(Range range, Work& work);
  [[nodiscard]] AllocationOutcome allocate_small(std::uint64_t asked_bytes);
  [[nodiscard]] Outcome deallocate_small(std::uint64_t address, std::uint64_t size_bytes);

  PhysicalMemory& memory_;
  std::function<void(Work&)> on_shortage_;
  LargeChunks chunks_;
  FreeBlocks small_free_;
  std::map<std::uint64_t, Sizes> small_;  // by address
  std::map<std::uint64_t, Sizes> large_;  // slabs are not in it
};

}  // namespace simcuda
