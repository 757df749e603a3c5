// The decisions of the caching allocator: which free block serves a request, whether it is split,
// and which blocks go back to the device when memory is short. Pure functions of the pools: nothing
// is changed here.
#pragma once

#include <cstdint>
#include <vector>

#include "allocators/caching/pool.h"
#include "allocators/caching/settings.h"

namespace allocmark::caching {

struct Request {
  std::uint64_t requested_bytes = 0;  // as the caller said
  std::uint64_t size_bytes = 0;       // rounded
  std::uint64_t segment_bytes = 0;    // what is asked of the device, where the cache has nothing
  StreamBlocks* home = nullptr;       // pool and stream
  bool whole = false;                 // the block that was found is not split
};

// Where the best fitting one of the free blocks of the request's stream stands, end() where there
// is none. Only one candidate is looked at: where a rule about oversize blocks forbids it, larger
// ones are not tried.
[[nodiscard]] SortedBlocks::Position choose_free_block(const Request& request,
                                                       const Settings& settings);

// Whether what a block has beyond the request becomes a free block of its own.
[[nodiscard]] bool should_split(const Block& block, std::uint64_t size_bytes,
                                const Settings& settings);

struct Release {
  std::vector<Block*> blocks;  // to give back, in this order
  bool enough = false;         // whether the device should then be asked again
};

// Oversize cached blocks of the request's stream that make room for it: one that is large enough,
// or the largest ones until they are together. Nothing where no max_split_size is set.
[[nodiscard]] Release choose_oversize_release(const Request& request, const Settings& settings);

// What garbage collection gives back to get rid of surplus_bytes, or as much as there is: in
// rounds, the whole segments that are free for at least the average number of searches.
[[nodiscard]] std::vector<Block*> choose_garbage(const Pool& pool, std::uint64_t surplus_bytes);

}  // namespace allocmark::caching
