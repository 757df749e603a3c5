// Virtual memory management (cuMemAddressReserve, cuMemCreate, cuMemMap, ...): reservations, memory
// handles with reference counts, mappings, access. In: what the driver calls take. Out: a status
// and the pages that moved. Every argument is checked; a call that fails changes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>

#include "harness/simcuda/core/device_heap.h"
#include "harness/simcuda/core/outcome.h"
#include "harness/simcuda/core/physical_memory.h"

namespace simcuda {

using MemoryHandle = std::uint64_t;  // never reused; 0 is none

struct HandleOutcome {
  Status status = Status::Ok;
  MemoryHandle handle = 0;
  Work work = {};
};

enum class Access : std::uint8_t { None, Read, ReadWrite };

// One mapping of a handle.
struct Mapping {
  Range range;
  MemoryHandle handle = 0;
  std::uint64_t offset_bytes = 0;  // into the handle's memory
  Access access = Access::None;
  std::uint32_t peer_access = 0;  // an Access for each of 16 other devices, two bits each

  [[nodiscard]] Access access_of_peer(unsigned peer) const {
    return static_cast<Access>(peer_access >> 2 * peer & 3);
  }
};

class VirtualMemory {
 public:
  // `on_shortage` makes the pools give back their free chunks. All have to outlive this.
  VirtualMemory(PhysicalMemory& memory, DeviceHeap& heap, std::function<void(Work&)> on_shortage);
  VirtualMemory(const VirtualMemory&) = delete;
  VirtualMemory& operator=(const VirtualMemory&) = delete;

  static constexpr std::uint64_t kGranularityBytes = kPageBytes;

  // size_bytes: a multiple of the granularity, not 0. alignment_bytes: 0 or a power of two.
  // Addresses cost no memory. (A caller's hint is not followed: what the driver does with one was
  // not measured.)
  [[nodiscard]] AllocationOutcome reserve(std::uint64_t size_bytes, std::uint64_t alignment_bytes);
  // Exactly a reservation, without mappings.
  [[nodiscard]] Outcome free_reservation(std::uint64_t address, std::uint64_t size_bytes);

  [[nodiscard]] HandleOutcome create(std::uint64_t size_bytes);
  // A handle for memory that another process took from its device: costs this one nothing.
  [[nodiscard]] HandleOutcome adopt(std::uint64_t size_bytes);
  // Drops the handle; its memory lives on while it is mapped.
  [[nodiscard]] Outcome release(MemoryHandle handle);
  // One more reference, as cuMemRetainAllocationHandle gives for a mapped address.
  [[nodiscard]] HandleOutcome retain(std::uint64_t address);

  // offset_bytes has to be 0, as the driver wants; the range has to begin in a reservation, with
  // neither a mapping nor memory of the heap in it; it may reach to the end of the reservation's
  // chunk, as on an H200.
  [[nodiscard]] Outcome map(std::uint64_t address, std::uint64_t size_bytes,
                            std::uint64_t offset_bytes, MemoryHandle handle);
  // The range has to lie as map's and must not cut a mapping in two; what is
  // not mapped in it does not matter, as on an H200.
  [[nodiscard]] Outcome unmap(std::uint64_t address, std::uint64_t size_bytes);
  // The range has to be covered by mappings, without gaps, and to begin and end with whole ones.
  [[nodiscard]] Outcome set_access(std::uint64_t address, std::uint64_t size_bytes, Access access);
  // The same for another device.
  Outcome set_peer_access(std::uint64_t address, std::uint64_t size_bytes, unsigned peer,
                          Access access);

  // The mapping that holds `address`; handle 0 where there is none.
  [[nodiscard]] Mapping find(std::uint64_t address) const;
  [[nodiscard]] std::uint64_t handle_bytes(MemoryHandle handle) const;  // 0: no such handle
  [[nodiscard]] bool reserved(std::uint64_t address) const;
  [[nodiscard]] std::size_t mapping_count() const { return mappings_.size(); }

 private:
  struct Memory {
    std::uint64_t size_bytes = 0;
    std::uint64_t handle_count = 0;  // references by create and retain
    std::uint64_t mapping_count = 0;
    bool is_adopted = false;
  };
  using Reservations = std::map<std::uint64_t, std::uint64_t>;  // address -> size in bytes
  // The reservation that holds `address`, or end.
  [[nodiscard]] Reservations::const_iterator reservation_at(std::uint64_t address) const;
  [[nodiscard]] bool in_one_chunk(Range range) const;
  // Calls `change` for all mappings of the range; refused where they do not cover it as set_access
  // wants.
  template <class Change>
  [[nodiscard]] Outcome change_mappings(Range range, Change change);
  [[nodiscard]] bool has_mapping(Range range) const;
  [[nodiscard]] bool cuts_mapping(Range range) const;
  [[nodiscard]] bool whole_mappings(Range range) const;
  void drop_if_unused(MemoryHandle handle, Work& work);

  PhysicalMemory& memory_;
  DeviceHeap& heap_;
  std::function<void(Work&)> on_shortage_;
  Reservations reservations_;
  std::map<std::uint64_t, Mapping> mappings_;  // by lo
  std::unordered_map<MemoryHandle, Memory> handles_;
  MemoryHandle next_handle_ = 1;
};

}  // namespace simcuda
