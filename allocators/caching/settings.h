// The effective configuration of the caching allocator: what a config string comes to.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>

#include "allocators/caching/release.h"
#include "base/bytes.h"

namespace allocmark::caching {

inline constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::size_t kIntervalCount = 16;  // 1 MiB, 2 MiB, ... 32 GiB and more

enum class PoolBackend : std::uint8_t {
  Native,           // PyTorch's own cache
  CudaMallocAsync,  // the driver's stream-ordered pool
};

// Address space of one expandable segment: a share of the device's memory, or so many GiB.
struct SegmentReserve {
  bool is_share = true;
  double value = 0;

  friend bool operator==(const SegmentReserve&, const SegmentReserve&) = default;
};

struct Settings {
  const Rules* rules = &newest_rules();  // of the release that reads the config string
  std::uint64_t max_split_size_bytes =
      kUnlimited;  // blocks of this size or more are "oversize", never split
  std::uint64_t large_segment_size_bytes = 20 * kMiB;  // segment for large requests below 10 MiB
  std::uint64_t max_non_split_rounding_bytes =
      20 * kMiB;  // how much larger an oversize block may be than a request
  double garbage_collection_threshold = 0;  // share of the limit; 0 is off
  std::array<std::uint64_t, kIntervalCount>
      roundup_power2_divisions{};  // per interval; 0 and 1 are off
  bool expandable_segments = false;
  bool release_lock_on_cudamalloc = false;
  double per_process_memory_fraction = 1.0;  // read once, when the allocator is made; 1 is no limit
  PoolBackend backend = PoolBackend::Native;
  bool throw_on_cudamalloc_oom = false;
  std::optional<SegmentReserve> expandable_segments_reserve{};  // nothing: 9/8 of the device

  // Where the release says so, frees what waited for a private pool's end at that end.
  bool graph_capture_record_stream_reuse = false;
  // Accepted for completeness; they concern pinned host memory (allocators/host_caching).
  bool pinned_use_background_threads = false;
  bool pinned_use_cuda_host_register = false;
  std::uint64_t pinned_num_register_threads = 1;
  std::uint64_t pinned_reserve_segment_size_mb = 0;
  bool pinned_free_catch_all = false;
  std::uint64_t pinned_max_round_threshold_mb = kUnlimited / kMiB;
  std::uint64_t pinned_max_cached_size_mb = kUnlimited / kMiB;

  friend bool operator==(const Settings&, const Settings&) = default;
};

}  // namespace allocmark::caching
