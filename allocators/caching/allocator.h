// PyTorch's CUDA caching allocator, decision for decision, of the release that the settings name
// (release.h): same block for every request, same counters, same failures. This class is the flow
// of a request; the decisions are in policy.h, the memory is handled by heap.h and events.h, and
// everything asked of the device goes through a Driver. Not thread-safe: the owner holds a lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocators/caching/events.h"
#include "allocators/caching/heap.h"
#include "allocators/caching/policy.h"
#include "allocators/caching/segment_info.h"

namespace allocmark::caching {

// What is known when a request fails.
struct OutOfMemory {
  std::uint64_t requested_bytes = 0;
  std::uint64_t size_bytes = 0;     // the request, rounded
  std::uint64_t segment_bytes = 0;  // what was asked of the device
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::optional<std::uint64_t> limit_bytes{};
  DeviceMemory device{};
  std::string process_lines{};
  const Rules* rules = &newest_rules();  // of the release whose text it is
  bool expandable_segments = false;
  std::uint64_t reserve_bytes = kUnlimited;  // address space of one expandable segment
  bool rejected = false;                     // by throw_on_cudamalloc_oom
};

// The text of PyTorch's OutOfMemoryError.
[[nodiscard]] std::string out_of_memory_message(const OutOfMemory& failure);

// A size as PyTorch's texts show it: "512 bytes", "1.50 KiB", "1024.00 GiB".
[[nodiscard]] std::string format_size(std::uint64_t size_bytes);

class CachingAllocator {
 public:
  // memory_limit_bytes 0: the limit is what settings.per_process_memory_fraction says, none where
  // that is 1.
  CachingAllocator(Driver& driver, const Settings& settings, std::uint64_t memory_limit_bytes = 0);
  // Gives all memory back, live blocks or not.
  ~CachingAllocator();

  // The address of a block for size_bytes > 0, nothing where memory is out (see last_failure).
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, Stream stream);

  // False where the address is not one that is held.
  [[nodiscard]] bool deallocate(std::uint64_t address);

  // The block has been used on `stream`. False where the address is not one that is held.
  [[nodiscard]] bool record_stream(std::uint64_t address, Stream stream);

  // Waits for every stream a freed block is still used on, then gives back all that is wholly free.
  void empty_cache();

  // Starts with this heap instead of an empty one; before the first request. The driver is asked
  // for expandable memory only. Blocks that wait for a stream are taken as owned: the caller gives
  // them back.
  void adopt(const std::vector<SegmentInfo>& segments) { heap_.adopt(segments); }
  // Gives back a segment that is wholly free, as garbage collection does; false where it is not.
  bool release_free_segment(std::uint64_t address);

  // Whether the cache, as it is now, has a block for such a request.
  [[nodiscard]] bool has_cached(std::uint64_t size_bytes, Stream stream) {
    const Request request = make_request(size_bytes, stream);
    return request.home->free.at(choose_free_block(request, settings_)) != nullptr;
  }

  // PyTorch allows to change settings at any time; the memory fraction and the counter
  // max_split_size stay.
  void change_settings(const Settings& settings) { settings_ = settings; }
  // set_per_process_memory_fraction, in bytes; nothing is a fraction of 1.
  void change_limit(std::optional<std::uint64_t> limit_bytes) {
    const bool whole = !limit_bytes && settings_.rules->keeps_whole_limit;
    limit_bytes_ = whole ? driver_.device_total_bytes() : limit_bytes;
  }

  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] std::optional<std::uint64_t> limit_bytes() const { return limit_bytes_; }
  [[nodiscard]] const Counters& counters() const { return heap_.counters; }
  [[nodiscard]] Counters& counters() { return heap_.counters; }
  [[nodiscard]] const Heap& heap() const { return heap_; }
  [[nodiscard]] const std::optional<OutOfMemory>& last_failure() const { return last_failure_; }

  // Blocks without owner that wait for events, each once.
  [[nodiscard]] std::vector<Block*> waiting_blocks() const;
  // The first block of every segment, by address.
  [[nodiscard]] std::vector<Block*> segment_heads() const {
    return heap_.segment_heads(waiting_blocks());
  }

 private:
  enum class Attempt : std::uint8_t { First, Retry };

  [[nodiscard]] Request make_request(std::uint64_t size_bytes, Stream stream);
  [[nodiscard]] bool collects_garbage() const {
    return limit_bytes_.has_value() && settings_.garbage_collection_threshold > 0;
  }
  [[nodiscard]] Block* obtain(const Request& request);
  [[nodiscard]] bool must_reject(const Request& request) const;
  [[nodiscard]] Block* ask_device(const Request& request, Attempt attempt);
  [[nodiscard]] Block* take_cached(SortedBlocks::Position position, const Request& request);
  [[nodiscard]] Block* take_new(Block* block, const Request& request);
  void count_taken(const Block& block, std::uint64_t taken_bytes);
  [[nodiscard]] std::uint64_t hand_out(Block* block, const Request& request);
  void free_if_unused(Block* block);
  void note_failure(const Request& request);

  void collect_garbage();
  [[nodiscard]] bool release_oversize(const Request& request);
  void release_cached();
  void release_pool(const Pool& pool);

  Driver& driver_;
  Settings settings_;
  std::optional<std::uint64_t> limit_bytes_;
  Heap heap_;
  PendingEvents events_;
  std::optional<OutOfMemory> last_failure_;
  bool rejected_ = false;  // the request under way, which nothing more is tried for
};

}  // namespace allocmark::caching
