// The chunks of the large heap: which address a request of whole pages gets. Addresses only. In:
// lengths, ranges given back. Out: addresses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "harness/simcuda/core/address_ranges.h"
#include "harness/simcuda/core/device_config.h"
#include "harness/simcuda/core/newest_fit.h"

namespace simcuda {

class LargeChunks {
 public:
  explicit LargeChunks(const DeviceConfig& config);

  // `size_bytes`: a multiple of kPageBytes. Nothing where the address space is used up.
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t size_bytes);
  // What take gave, whole.
  void give(Range range);

  [[nodiscard]] std::size_t chunk_count() const { return by_address_.size(); }

 private:
  struct Chunk {
    Range range;
    std::vector<Range> free;  // ascending, never touching each other
    bool initial = false;
  };
  void add_chunk(Range range, Range free, bool initial);
  [[nodiscard]] static std::uint64_t longest_free(const Chunk& chunk);
  // Removes the empty slots and leaves room for as many new ones.
  void squeeze_slots();

  AddressRanges ranges_;
  NewestFit longest_;         // per slot: length of the chunk's longest free block
  std::vector<Chunk> slots_;  // in order of creation; removed chunks leave an empty slot
  std::map<std::uint64_t, std::size_t> by_address_;  // lo of the chunk -> slot
};

}  // namespace simcuda
