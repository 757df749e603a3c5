// PyTorch's CUDA caching allocator, decision for decision, of the release that the settings name
// (release.h): same block for every request, same counters, same failures. This class is the flow
// of a request; the decisions are in policy.h, the memory is handled by heap.h and events.h, and
// everything asked of the device goes through a Driver. Not thread-safe: the owner holds a lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
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
  std::uint64_t private_free_bytes = 0;  // of these, cached by private pools
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
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, Stream stream) {
    const Block* const block =
        captured_.empty() ? serve(size_bytes, stream) : serve_beside_capture(size_bytes, stream);
    if (block == nullptr) return std::nullopt;
    return block->address;
  }

  // False where the address is not one that is held.
  [[nodiscard]] bool deallocate(std::uint64_t address);

  // The block has been used on `stream`. False where the address is not one that is held.
  [[nodiscard]] bool record_stream(std::uint64_t address, Stream stream);

  // Waits for every stream a freed block is still used on, then gives back all that is wholly free.
  void empty_cache();

  // Private pools (private_pools.cc), as c10's functions of the same names do it. Calls in an order
  // that c10 stops at with an error throw EnvironmentError.
  void use_pool(std::uint64_t id);  // createOrIncrefPool
  // beginAllocateToPool; nothing for every stream.
  void begin_pool(std::uint64_t id, std::optional<Stream> stream);
  void end_pool(std::uint64_t id);                                    // endAllocateToPool
  void release_pool(std::uint64_t id);                                // releasePool
  void use_pool_on_oom(std::uint64_t id, bool on);                    // setUseOnOOM
  void never_split_pool(std::uint64_t id) { heap_.never_split(id); }  // setNoSplit
  void empty_pool(std::uint64_t id) { release_cached(id); }           // emptyCache(id)
  // The device captures a graph on that stream (markCaptureBegin), and no more. What PyTorch asks
  // is whether the current stream is captured: of a request that is its own, and of all else the
  // one that is captured. Up to 2.12 it takes routing for a capture, and this changes nothing.
  void begin_capture(Stream stream);
  void end_capture(Stream stream);
  // A block of a private pool comes back to where it was at a checkpoint (setCheckpointPoolState):
  // the front of the free block at this address, whatever else has room. False where there is none.
  [[nodiscard]] bool restore_block(std::uint64_t id, std::uint64_t address,
                                   std::uint64_t size_bytes);
  // The pool that a request of this kind on that stream goes to.
  [[nodiscard]] Pool& routed_pool(PoolKind kind, Stream stream) {
    return scopes_.empty() ? heap_.pool(kind) : pool_of_scopes(kind, stream);
  }
  // Of the pool that requests on that stream go to; null: the common ones.
  [[nodiscard]] const PrivatePool* routed_owner(Stream stream) const;

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
  [[nodiscard, gnu::noinline]] Block* obtain(Request& request);
  [[nodiscard]] bool must_reject(const Request& request) const;
  [[nodiscard]] Block* ask_device(const Request& request, Attempt attempt);
  [[nodiscard]] Block* take_cached(SortedBlocks::Position position, const Request& request);
  [[nodiscard, gnu::noinline]] Block* take_new(Block* block, const Request& request);
  void count_taken(const Block& block, std::uint64_t taken_bytes);
  [[nodiscard]] Block* hand_out(Block* block, const Request& request);
  void free_if_unused(Block* block);
  [[gnu::noinline]] void process_events();
  [[gnu::noinline]] void note_failure(const Request& request);

  void collect_garbage();
  [[nodiscard]] bool release_oversize(const Request& request);
  // Of all, or of the private pool.
  void release_cached(std::uint64_t private_id = 0);
  void release_blocks(const Pool& pool);

  // Requests of one stream, or of all, go to a private pool.
  struct Scope {
    std::uint64_t id = 0;
    std::optional<Stream> stream{};
  };
  [[nodiscard, gnu::noinline]] Pool& pool_of_scopes(PoolKind kind, Stream stream);
  [[nodiscard]] PrivatePool& used_pool(std::uint64_t id, const char* call);
  // Whether everything waits as in a capture.
  [[nodiscard]] bool captures() const {
    return settings_.rules->pools_capture ? !scopes_.empty() : on_captured_stream_;
  }
  // The block that the caller gets; null where memory is out.
  [[nodiscard]] Block* serve(std::uint64_t size_bytes, Stream stream);
  [[nodiscard]] Block* serve_beside_capture(std::uint64_t size_bytes, Stream stream);
  [[gnu::noinline]] void wait_for_uses(Block* block);
  void note_capture_use(Block* block, Stream stream);
  void forget_capture_uses(Block* block);
  void end_deferral(const PrivatePool* pool);
  void release_unused(std::uint64_t private_id);
  [[nodiscard]] Block* take_overflow(Request& request);

  Driver& driver_;
  Settings settings_;
  std::optional<std::uint64_t> limit_bytes_;
  Heap heap_;
  PendingEvents events_;
  std::optional<OutOfMemory> last_failure_;
  bool rejected_ = false;                // the request under way, which nothing more is tried for
  std::vector<Scope> scopes_;            // in the order in which they were begun
  std::vector<Stream> captured_;         // streams
  bool on_captured_stream_ = false;      // the call under way
  std::vector<std::uint64_t> overflow_;  // pools that serve when memory is out
  std::unordered_map<Block*, std::vector<Stream>> capture_uses_;
};

}  // namespace allocmark::caching
