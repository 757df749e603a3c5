// The thrust_pool backend: Thrust's disjoint_unsynchronized_pool_resource over cudaMalloc, with its
// pool_options as config keys under their own names. Requests flow in; blocks are powers of two cut
// from growing chunks, larger ones come from cudaMalloc one by one and are cached.
//
// The pool knows no streams: a block freed on one stream can be handed to another at once, while
// the first still works on it. Thrust asks its users to synchronise. With sync_at_free:recorded
// (the default) a free waits only for blocks that record_stream named, so programs that pass memory
// between streams without it are not safe; with sync_at_free:always every free waits for the
// block's streams, and every program is.
#pragma once

#include <cstdint>
#include <string_view>

#include "allocators/backend/backend.h"
#include "allocators/conf/conf_value.h"

namespace allocmark {

// What a config string of this backend says. The defaults are those of Thrust's
// get_default_options.
struct ThrustPoolConf {
  std::uint64_t min_blocks_per_chunk = 16;
  std::uint64_t min_bytes_per_chunk = 1024;
  std::uint64_t max_blocks_per_chunk = std::uint64_t{1} << 20;
  std::uint64_t max_bytes_per_chunk = std::uint64_t{1} << 30;
  std::uint64_t smallest_block_size = 16;  // bytes, a power of two
  std::uint64_t largest_block_size = std::uint64_t{1}
                                     << 20;  // bytes, a power of two; above: cudaMalloc
  std::uint64_t alignment = 16;              // bytes, a power of two
  bool cache_oversized = true;
  std::uint64_t cached_size_cutoff_factor =
      16;  // a cached block this many times too large is not used
  std::uint64_t cached_alignment_cutoff_factor = 16;  // the same for its alignment
  bool sync_always = false;                           // sync_at_free:always
};

[[nodiscard]] ConfResult<ThrustPoolConf> read_thrust_pool_conf(std::string_view text);

[[nodiscard]] BackendEntry thrust_pool_entry();

}  // namespace allocmark
