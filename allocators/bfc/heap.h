// TensorFlow's and XLA's BFCAllocator ("best fit with coalescing") and ONNX Runtime's BFCArena,
// which began as a copy of it: which chunk of memory a request gets, when a chunk is split, when
// more memory is taken from the device and when it goes back. Requests flow in, addresses flow out;
// memory comes from a Source. Not thread-safe.
//
// In short: sizes are rounded up to 256 B; a request takes the smallest free chunk that is large
// enough, and of equal ones the first by address; the chunk is split where it is twice as large, or
// 128 MiB larger. A freed chunk is joined with its free neighbours at once. Memory comes in
// regions: one as large as the limit, or with allow_growth 2 MiB and then twice as much each time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "allocators/bfc/chunks.h"
#include "base/bytes.h"

namespace allocmark::bfc {

enum class End : std::uint8_t { Lower, Upper };
// Whether a chunk a little larger than the request is given whole.
enum class Split : std::uint8_t { RetainPadding, Exact };

struct EndPolicy {
  bool descending = false;  // of free chunks with equal size the highest comes first
  Split hole = Split::RetainPadding;
  Split gap = Split::Exact;
};

inline constexpr std::uint64_t kNoLimit = UINT64_MAX;

// What ONNX Runtime decides otherwise, with allow_growth. As it is here: TensorFlow's and XLA's.
struct ArenaRules {
  bool takes_as_requested = false;       // a region is as large as the request, rounded
  std::uint64_t doubling_bytes_max = 0;  // doubling after a region ends there; 0: never
  bool doubles_first = false;            // before the device has answered; else after a yes
  std::uint64_t asked_bytes_min = 0;     // after a refusal the device is asked for no less
  // shrink() gives unused regions back, and the next one has that size; 0: it does nothing.
  std::uint64_t regrowth_bytes = 0;
  bool keeps_first_region = false;  // at shrink()
};

struct HeapOptions {
  std::uint64_t limit_bytes = 0;
  bool allow_growth = true;
  std::uint64_t first_region_bytes = 2 * kMiB;  // with allow_growth
  bool garbage_collection = false;  // unused regions go back where a request finds no memory
  double fragmentation_fraction =
      0;  // of the limit: from that rest on a chunk is split; 0: rest_bytes_max
  std::uint64_t rest_bytes_max = 128 * kMiB;
  bool joins_regions = false;
  bool timestamps = false;  // every free gets the next number, see set_safe_frontier
  // XLA since April 2026: a request's alignment is kept. Before, every place was on 256 B.
  bool aligns = false;
  // XLA since 2026, ONNX Runtime: where the device refuses ever less memory, it stops asking.
  bool ends_backpedal = false;
  // XLA since June 2026: requests are served from the two ends of one region.
  bool spatial_partitioning = false;
  EndPolicy lower{};
  EndPolicy upper{};
  ArenaRules arena{};
};

// Where regions come from.
class Source {
 public:
  virtual ~Source() = default;
  // At least size_bytes, or nothing where there is no memory. The heap owns it until give().
  [[nodiscard]] virtual std::optional<Region> take(std::uint64_t alignment_bytes,
                                                   std::uint64_t size_bytes) = 0;
  virtual void give(const Region& region) = 0;
};

struct Request {
  std::uint64_t size_bytes = 0;
  std::uint64_t alignment_bytes = 1;  // a power of two
  std::uint64_t freed_before = 0;     // only memory with no later timestamp; 0: any
  End end = End::Lower;
};

// As AllocatorStats has them.
struct HeapCounters {
  std::int64_t num_allocs = 0;
  std::int64_t bytes_in_use = 0;
  std::int64_t peak_bytes_in_use = 0;
  std::int64_t largest_alloc_size = 0;
  std::int64_t pool_bytes = 0;
  std::int64_t peak_pool_bytes = 0;
};

class Heap {
 public:
  // The source must outlive the heap.
  Heap(const HeapOptions& options, Source& source);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  // Gives back all regions.
  ~Heap();

  // The address; nothing for size 0 and where there is no memory.
  [[nodiscard]] std::optional<std::uint64_t> allocate(const Request& request);
  // An address that allocate() gave and that was not given back since.
  void deallocate(std::uint64_t address);

  // Gives back the regions that hold no live block, as ArenaRules says.
  void shrink();

  // Frees with a number below `count` are over: their memory may be joined and used by all.
  void set_safe_frontier(std::uint64_t count);

  // The chunk of a live block.
  [[nodiscard]] const Chunk& chunk_of(std::uint64_t address) const;
  [[nodiscard]] const Chunks& chunks() const { return chunks_; }
  [[nodiscard]] const HeapCounters& counters() const { return counters_; }
  [[nodiscard]] std::uint64_t free_bytes_largest() const { return chunks_.free_bytes_largest(); }
  void clear_peaks();
  [[nodiscard]] std::uint64_t region_count() const { return region_count_; }        // taken so far
  [[nodiscard]] std::uint64_t collected_count() const { return collected_count_; }  // given back
  // Requests that the original would never have come back from; here they are refused. It doubles
  // the size of the next region after each one, up to 2^64, which is 0, and doubles that for ever.
  // And where the device refuses memory, TensorFlow 2.21 asks again for 2304 B for ever.
  [[nodiscard]] std::uint64_t endless_count() const { return endless_count_; }

 private:
  struct Fit {
    std::uint64_t size_bytes;  // rounded
    std::uint64_t requested_bytes;
    std::uint64_t alignment_bytes;
    std::uint64_t freed_before;
    End end;
  };

  [[nodiscard]] bool extend(const Fit& fit);
  [[nodiscard]] std::optional<Region> take_less(const Fit& fit, std::uint64_t size_bytes);
  [[nodiscard]] std::optional<std::uint64_t> find(const Fit& fit);
  [[nodiscard]] bool fits(const Chunk& chunk, const Fit& fit) const;
  [[nodiscard]] std::uint64_t place_low(Handle handle, const Fit& fit);
  [[nodiscard]] std::uint64_t place_high(Handle handle, const Fit& fit);
  [[nodiscard]] bool splits(const Chunk& chunk, const Fit& fit, std::uint64_t padding_bytes) const;
  [[nodiscard]] bool splits_exactly(Tag tag, End end) const;
  std::uint64_t hand_out(Handle handle, const Fit& fit, Tag tag);
  [[nodiscard]] bool merge_timestamped(std::uint64_t wanted_bytes);
  [[nodiscard]] std::vector<std::uint64_t> chunks_to_merge(bool all);
  void merge_one(Handle handle, std::uint64_t wanted_bytes, bool& satisfied);
  [[nodiscard]] bool collect_garbage(std::uint64_t size_bytes);
  void give_unused(bool keeps_first);
  void double_next_region();

  HeapOptions options_;
  Source& source_;
  Chunks chunks_;
  std::uint64_t next_region_bytes_;
  std::uint64_t padding_bytes_max_;
  std::int64_t next_allocation_id_ = 1;
  std::uint64_t clock_ = 0;
  std::uint64_t safe_frontier_ = 0;
  std::deque<Handle> timestamped_;
  HeapCounters counters_;
  std::optional<std::uint64_t> first_region_;  // its address
  std::uint64_t region_count_ = 0;
  std::uint64_t collected_count_ = 0;
  std::uint64_t endless_count_ = 0;
};

}  // namespace allocmark::bfc
