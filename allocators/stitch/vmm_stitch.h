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

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_driver.h"
#include "allocators/stitch/ranges.h"
#include "allocators/stitch/small_heap.h"

namespace allocmark {

// Config keys: chunk_mb (2 to 512, a power of two), mapped_percent_max (100 to 10000),
// other_streams (when_short: their free chunks are taken where the device has no more; first:
// before it is asked).
[[nodiscard]] ConfResult<stitch::RangesOptions> read_vmm_stitch_conf(std::string_view text);

class VmmStitchBackend final : public Backend {
 public:
  // On the current device, which must stay the current one of every thread that calls. `device`,
  // where it is not null, is asked in place of an own one and has to outlive this.
  explicit VmmStitchBackend(const stitch::RangesOptions& options,
                            caching::Driver* device = nullptr);
  // Waits for the device and gives back everything, live blocks too.
  ~VmmStitchBackend() override;

  // The caller owns the block, which is usable on `stream` at once, and gives it back with
  // deallocate, on any thread. Blocks the host while the driver maps memory, and where memory is
  // short for the streams that record_stream named.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override;
  // Never blocks.
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override;
  void record_stream(void* pointer, cudaStream_t stream) override;
  // Waits for the device, unmaps all that is unused and gives its memory back.
  void trim() override;

  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override;
  [[nodiscard]] std::vector<NamedCounter> counters() const override;

 private:
  struct Block {
    stitch::Range range;           // view null: a piece of a slab
    std::uint64_t order = 0;       // of that piece
    std::uint64_t size_bytes = 0;  // rounded
    caching::Stream stream = 0;
    std::vector<caching::Stream> other_streams;  // that have used it
  };
  // Given back while other streams were at work with it.
  struct Pending {
    Block block;
    std::vector<caching::Event> events;
  };

  [[nodiscard]] std::optional<std::uint64_t> try_allocate(Block& block);
  [[nodiscard]] std::optional<std::uint64_t> take_small(Block& block);
  void release(const Block& block);
  void release_done_pending();
  void wait_for_pending();
  void release_pending(std::deque<Pending>::iterator at);
  [[nodiscard]] std::vector<caching::Event> record_events(const Block& block);
  [[nodiscard]] std::unordered_map<void*, Block>::iterator find(void* pointer);

  mutable std::mutex mutex_;  // guards everything below
  std::optional<CudaDriver> own_driver_;
  caching::Driver& driver_;
  stitch::Ranges ranges_;
  std::uint64_t small_bytes_max_;
  std::map<caching::Stream, stitch::SmallHeap> small_heaps_;
  std::map<std::uint64_t, stitch::Range> slabs_;  // by order
  std::unordered_map<void*, Block> live_;
  std::deque<Pending> pending_;
  std::uint64_t allocated_bytes_ = 0;
  std::uint64_t pending_bytes_ = 0;
  std::uint64_t retry_count_ = 0;
};

[[nodiscard]] BackendEntry vmm_stitch_entry();

}  // namespace allocmark
