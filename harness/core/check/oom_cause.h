// Why a request failed. The state of device, program and backend at that moment flows in; one cause
// flows out.
//
// With C the capacity, n the request, L the live requests, A what backends have handed out (rounded
// as they round), D what the device holds beyond what the backends asked it for (its pages are
// larger than the requests), P what the process's own backend holds back until work on other
// streams ends, O what it caches for other streams only, X what other processes' backends hold back
// or cache, M the limit of the process (a memory fraction), and L', A' the process's own L and A,
// the causes are tried in this order:
//   HostLost       device and host have one memory, and a request found too little left for the
//                  host: on the machine no request fails, the host hangs
//   Capacity       L + n > C: no allocator could have served it
//   Limit          L' + n > M: no other setting can serve it below that limit, and the card could
//   Rounding       A + D + n > C, or A' + n > M: what rounding added to the requests filled the
//                  difference; where the backend does not say, D is what its blocks take beyond
//                  the requests
//   Refused        during the call, the backend asked the driver for no memory, as simcuda counts
//                  calls, and the process has no limit by which it could know better
//   Pending        during the call, blocks that waited for events became free, at least n bytes of
//                  them, and a cached block of n bytes is there now: the same request again is
//                  served
//   Stranded       A + D + P + O + n > C, or A' + P + O + n > M: it fits only into memory that
//                  other streams keep
//   OtherProcess   A + D + P + O + X + n > C: it fits only into what another process caches
//   Fragmentation  otherwise: enough memory of its own, but nowhere in one piece
//   Unknown        where the backend cannot tell A, or cannot tell P or O while that decides
#pragma once

#include <cstdint>
#include <optional>

#include "results/schema.h"

namespace allocmark {

struct OomSituation {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t request_bytes = 0;
  std::uint64_t requested_bytes_live = 0;        // of all processes, without the failed request
  std::optional<std::uint64_t> allocated_bytes;  // as MemoryStats
  std::uint64_t device_extra_bytes = 0;  // held by the device beyond reserved_bytes; 0 if unknown
  std::optional<std::uint64_t> active_bytes = std::nullopt;              // as MemoryStats
  std::optional<std::uint64_t> free_other_streams_bytes = std::nullopt;  // as MemoryStats
  std::uint64_t waiting_bytes_before = 0;  // active_bytes less allocated_bytes before the request
  std::optional<std::uint64_t> free_largest_bytes = std::nullopt;  // as MemoryStats, after it
  bool single_stream = false;  // the trace uses one stream: nothing can be kept for another one
  std::optional<std::uint64_t> limit_bytes = std::nullopt;  // M
  // Whether the call asked the driver for memory; nothing where nobody counted.
  std::optional<bool> asked_driver = std::nullopt;
  bool host_is_lost = false;  // device and host share their memory, and too little was left
  // Of several processes: the failing one's own requests and blocks, and what the others cache.
  // Without other processes the sums above are its own.
  struct Own {
    std::uint64_t requested_bytes_live = 0;
    std::optional<std::uint64_t> allocated_bytes, active_bytes;
    std::uint64_t free_other_processes_bytes = 0;
  };
  std::optional<Own> own = std::nullopt;
};

[[nodiscard]] OomCause oom_cause(const OomSituation& situation);

}  // namespace allocmark
