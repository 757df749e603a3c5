// PyTorch's cache of pinned host memory (CachingHostAllocator), decision for decision: the same
// block for every request and the same counters as the release that it is asked for. Requests,
// uses on streams and frees flow in; addresses and counters flow out.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "allocators/caching/settings.h"
#include "allocators/host_caching/host_counters.h"
#include "allocators/host_caching/host_driver.h"
#include "allocators/host_caching/host_rules.h"

namespace allocmark::host_caching {

// What a request got. An address of 0 is none: 0 bytes were asked, or the driver refused.
struct PinnedBlock {
  Address address = 0;
  std::uint64_t size_bytes = 0;  // what is pinned there; in 2.13 it can be less than was asked
};

// Bytes that a new block for `size_bytes` (at least 1) has; 0 where they are more than 2^63.
[[nodiscard]] std::uint64_t block_bytes(std::uint64_t size_bytes,
                                        const caching::Settings& settings);

// The number of a size class: blocks of class i have more than 2^(i-1) and at most 2^i bytes.
[[nodiscard]] std::size_t size_class(std::uint64_t size_bytes);

// Not thread-safe. The driver must outlive it.
class HostCache {
 public:
  // Settings name their release. The reserved segment is pinned at the first request that needs
  // new memory, as large as the settings say then.
  HostCache(HostDriver& driver, const caching::Settings& settings);
  // Unpins everything, blocks in use too. PyTorch itself leaves that to the end of the process.
  ~HostCache();
  HostCache(const HostCache&) = delete;
  HostCache& operator=(const HostCache&) = delete;

  // The block is the caller's until deallocate(). Blocks where new memory is pinned.
  [[nodiscard]] PinnedBlock allocate(std::uint64_t size_bytes);
  // Says that the stream uses the block that begins there; it is not reused before the work that
  // the stream has at deallocate() is done. False where no block of this cache begins there.
  bool use(Address address, Stream stream);
  // Gives a block back that allocate() gave; 0 is ignored. Never blocks, but where
  // pinned_max_cached_size_mb unpins.
  void deallocate(Address address);
  // Unpins what is free. May wait for the device.
  void empty_cache();

  // What PyTorch's background thread does every 100 us, once pinned_use_background_threads has
  // made it start: it starts at the first request that needs new memory.
  void background_pass();

  // Settings changed at run time. What exists keeps its size and its way to be unpinned.
  void change(const caching::Settings& settings) { settings_ = settings; }

  // A graph's capture, since 2.11: until end_capture() requests come from the pool of that number
  // (not 0) and count as captured. Memory of captured blocks that a stream used never comes back.
  // Releases before 2.11 are not modelled during a capture.
  void begin_capture(std::uint64_t pool);
  void end_capture();
  // The graph is gone; empty_cache() then takes the free blocks of its pool, too.
  void release_pool(std::uint64_t pool);

  [[nodiscard]] HostStatistics statistics() const;
  void reset_peak();
  void reset_accumulated();
  // All bytes that are pinned now: blocks, and the whole reserved segment.
  [[nodiscard]] std::uint64_t pinned_bytes() const { return pinned_bytes_; }
  [[nodiscard]] std::uint64_t pinned_bytes_peak() const { return pinned_bytes_peak_; }

 private:
  struct Pool;
  struct Block {
    Address address = 0;
    std::uint64_t size_bytes = 0;
    Pool* pool = nullptr;
    PinKind kind = PinKind::HostAlloc;
    bool is_reserved = false;  // a part of the reserved segment, which is never unpinned
    bool is_captured = false;
    std::set<Stream> streams{};     // that use it
    std::size_t waiting_count = 0;  // events that have not passed
  };
  struct Wait {
    Event event = 0;
    Block* block = nullptr;
  };
  struct Pool {
    std::array<std::vector<Block*>, kSizeClassCount> free{};  // of each class, the last freed last
    std::deque<Wait> waits{};                                 // the oldest last
    std::set<Block*> blocks{};
    ClassCounters own{};
    ClassCounters* counters = nullptr;  // its own, or those of the default pool
    int use_count = 1;
  };
  struct Segment {
    Address first = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t used_bytes = 0;
    PinKind kind = PinKind::HostAlloc;
  };

  [[nodiscard]] const HostRules& rules() const { return host_rules(*settings_.rules); }
  [[nodiscard]] Pool& current_pool();
  [[nodiscard]] Block* take_free(std::uint64_t size_bytes, Pool& pool);
  [[nodiscard]] Block* pin_block(std::uint64_t size_bytes, Pool& pool);
  [[nodiscard]] Address pin(std::uint64_t size_bytes, PinKind kind);
  [[nodiscard]] Address take_from_segment(std::uint64_t size_bytes);
  void take_passed(Pool& pool);
  void take_passed_unless_capturing(Pool& pool);
  void take_passed_of_size(std::uint64_t size_bytes, Pool& pool);
  [[nodiscard]] bool settle(const Wait& wait, std::int64_t counted_bytes);
  void return_block(Block* block, std::int64_t counted_bytes, bool waited);
  void destroy(Block* block);
  void empty_pool(Pool& pool);
  void unpin(const Block& block);

  HostDriver& driver_;
  caching::Settings settings_;
  Pool default_pool_{};
  std::map<std::uint64_t, std::unique_ptr<Pool>> pools_{};  // of captures
  std::uint64_t capturing_ = 0;                             // pool of the capture; 0 is none
  std::unordered_map<Address, std::unique_ptr<Block>> blocks_{};
  bool asked_for_segment_ = false;
  Segment segment_{};
  bool has_background_thread_ = false;
  WholeCounters whole_{};
  std::uint64_t pinned_bytes_ = 0;
  std::uint64_t pinned_bytes_peak_ = 0;
};

}  // namespace allocmark::host_caching
