// The chunks of the large heap: which address a request of whole pages gets, and which a
// reservation of addresses. Both cut from the newest chunk that has room. Addresses only. In:
// lengths, ranges given back. Out: addresses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "harness/simcuda/core/address_ranges.h"
#include "harness/simcuda/core/device_config.h"
#include "harness/simcuda/core/newest_fit.h"
#include "harness/simcuda/core/reserved_area.h"

namespace simcuda {

class LargeChunks {
 public:
  // `area` has to outlive the chunks.
  LargeChunks(const DeviceConfig& config, ReservedArea& area);

  // `size_bytes`: a multiple of kPageBytes. Nothing where the address space is used up.
  // The block that fits best; a new chunk is from the top of the heap's ranges.
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t size_bytes);
  // The same for a reservation, at a multiple of `alignment_bytes`, a power of two: the lowest
  // block that fits; a new chunk is from the bottom of the area.
  [[nodiscard]] std::optional<std::uint64_t> take_reserved(std::uint64_t size_bytes,
                                                           std::uint64_t alignment_bytes);
  // What take or take_reserved gave, whole.
  void give(Range range);

  // The chunk that holds what take or take_reserved gave.
  [[nodiscard]] Range chunk_of(std::uint64_t address) const;
  [[nodiscard]] std::size_t chunk_count() const { return by_address_.size(); }

 private:
  struct Chunk {
    Range range;
    std::vector<Range> free;  // ascending, never touching each other
    enum class Origin : std::uint8_t { Initial, Ranges, Area } origin = Origin::Initial;
  };
  // The new chunk's slot.
  [[nodiscard]] std::size_t add_chunk(Range range, Range free, Chunk::Origin origin);
  // The newest chunk's slot with room at a multiple of `alignment_bytes`.
  [[nodiscard]] std::optional<std::size_t> slot_with_room(std::uint64_t size_bytes,
                                                          std::uint64_t alignment_bytes) const;
  // `range`, a part of the free block at `index` of a slot's chunk, is not free any more.
  void cut(std::size_t slot, std::size_t index, Range range);
  [[nodiscard]] static std::uint64_t longest_free(const Chunk& chunk);
  // Removes the empty slots and leaves room for as many new ones.
  void squeeze_slots();

  AddressRanges ranges_;
  ReservedArea& area_;
  NewestFit longest_;         // per slot: length of the chunk's longest free block
  std::vector<Chunk> slots_;  // in order of creation; removed chunks leave an empty slot
  std::map<std::uint64_t, std::size_t> by_address_;  // lo of the chunk -> slot
};

}  // namespace simcuda
