// The vmm_stitch backend: an allocator of our own without external fragmentation above a chunk. A
// large request gets a range of addresses that is mapped onto free physical chunks wherever they
// lie, so it fails only where the chunks themselves run out. Requests flow in, device memory from
// the driver's virtual memory functions flows out.
//
// In short (stitch/ranges.h and stitch/small_heap.h have the rest):
//   - up to 1 MiB, or half a chunk where that is less: best fit in slabs of one chunk, per stream;
//   - above: rounded up to whole chunks, and served by the smallest idle view (range once stitched)
//     that is large enough; else by a new view over the stream's free chunks and as many new ones
//     as are missing; where the device has no more, over chunks that other streams have freed.
//   - freed chunks belong to the stream they were freed on. Another stream gets them only after its
//     work was made to wait (cudaStreamWaitEvent); the host never waits for that.
//   - a block that record_stream named waits until those streams have passed the point of its free.
//   - no choice depends on where the driver puts things: what lies first in order of our own is
//     taken (stitch/addresses.h), so that the same program gets the same places on every machine.
//   - views stay mapped until addresses over mapped_percent_max of the physical memory are mapped.
#pragma once

#include <string_view>

#include "allocators/backend/backend.h"
#include "allocators/conf/conf_value.h"
#include "allocators/stitch/ranges.h"

namespace allocmark {

// Config keys: chunk_mb (2 to 512, a power of two), mapped_percent_max (100 to 10000),
// other_streams (when_short: their free chunks are taken where the device has no more; first:
// before it is asked).
[[nodiscard]] ConfResult<stitch::RangesOptions> read_vmm_stitch_conf(std::string_view text);

[[nodiscard]] BackendEntry vmm_stitch_entry();

}  // namespace allocmark
