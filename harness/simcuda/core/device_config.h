// What has to be known about one simulated GPU before it starts: its memory, what its context
// takes, where addresses start. The numbers of the defaults were measured on an NVIDIA H200 (driver
// 580.159, CUDA 13.0).
#pragma once

#include <cstdint>
#include <vector>

#include "harness/simcuda/core/units.h"

namespace simcuda {

// A chunk of the large heap that exists before the program's first request. It is never given back.
struct InitialChunk {
  std::int64_t base_offset =
      0;  // of its first byte, relative to DeviceConfig::base_address; multiple of 32 MiB
  std::uint64_t free_from_bytes = 0;  // its free part: [free_from_bytes, kChunkBytes)
};

// What the process did before the program's first request.
enum class StartState : std::uint8_t {
  Plain,   // cudaFree(0) only
  Kernel,  // the same with a kernel of the program's loaded: its place in the second initial chunk
           // is taken
  C10,     // PyTorch's allocator library with 7 streams created
};

// Memory that device and host share. Nobody here has measured such a card: MODEL.md says from what
// this follows.
struct SharedHost {
  // The card has no memory of its own. What the host takes is missing, and where too little is left
  // to the host no request fails: the host hangs.
  bool is_one_pool = false;
  std::uint64_t own_bytes = 0;      // of other programs on the host; out of the total
  std::uint64_t reserve_bytes = 0;  // with less available, the host hangs; out of the total
  std::uint64_t cached_bytes = 0;   // page cache, which gives way to every request
};

struct DeviceConfig {
  std::uint64_t total_bytes = 150109880320;         // as cudaMemGetInfo says
  std::uint64_t free_bytes_initial = 149557477376;  // as cudaMemGetInfo says after context creation
  std::uint64_t page_limit =
      71313;  // 2 MiB pages that fit in all: one whole page less than are free
  std::uint64_t chunk_limit = 4457;  // 32 MiB pool chunks that fit in all (4456 was seen too)
  std::uint64_t base_address = 0x7f0000000000;         // B: differs per process; multiple of 32 MiB
  std::uint64_t lowest_heap_address = 0x100000000000;  // the heap's ranges never go below
  std::uint64_t area_address = 0x302000000;            // pools and chunks of reservations, upwards
  std::uint64_t area_end_address = 0x0f0000000000;
  Range area_hole = {0x10000000000, 0x10004000000};  // never used by the driver
  std::vector<InitialChunk> initial_chunks;          // oldest first
  std::uint64_t streams_created = 0;  // before the start; decides which later creation takes a page
  std::uint64_t pending_launches_max =
      1024;  // per stream; a launch beyond that makes the host wait
  std::uint64_t host_bytes = std::uint64_t{1} << 40;  // what pools of the host's memory may take
  SharedHost host;
};

// An H200 whose process is in `start`. With C10, streams_created is 7, the count that its start was
// measured with.
[[nodiscard]] DeviceConfig h200_config(StartState start);

// The same device with room for `usable_bytes` (rounded down to whole pages) instead: page limit,
// chunk limit, free and total bytes all follow, so that what the device keeps for itself stays as
// measured.
[[nodiscard]] DeviceConfig with_usable_bytes(const DeviceConfig& config,
                                             std::uint64_t usable_bytes);

// The same device with another total, as cudaMemGetInfo says it. The context takes as much as
// before, and as much is kept back.
[[nodiscard]] DeviceConfig with_total_bytes(const DeviceConfig& config, std::uint64_t total_bytes);

// The same device, whose memory the host shares. The total stays.
[[nodiscard]] DeviceConfig with_shared_host(const DeviceConfig& config, const SharedHost& host);

// The memory of its host, all of which pools may take.
[[nodiscard]] DeviceConfig host_of(const DeviceConfig& config);

}  // namespace simcuda
