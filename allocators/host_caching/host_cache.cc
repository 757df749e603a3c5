// See host_cache.h.
#include "allocators/host_caching/host_cache.h"

#include <bit>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"

namespace allocmark::host_caching {
namespace {

constexpr std::uint64_t kLargestBytes = std::uint64_t{1} << 63;
constexpr std::uint64_t kSegmentStepBytes = 4 * kKiB;
// What PyTorch subtracts from the counter of bytes in use where no size was searched.
constexpr std::int64_t kNoSize = -1;

std::uint64_t bytes_of(std::uint64_t megabytes) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / kMiB;
  return megabytes > kMost ? std::numeric_limits<std::uint64_t>::max() : megabytes * kMiB;
}

PinKind kind_of(const caching::Settings& settings) {
  return settings.pinned_use_cuda_host_register ? PinKind::HostRegister : PinKind::HostAlloc;
}

std::int64_t signed_of(std::uint64_t size_bytes) { return static_cast<std::int64_t>(size_bytes); }

}  // namespace

std::uint64_t block_bytes(std::uint64_t size_bytes, const caching::Settings& settings) {
  if (size_bytes > kLargestBytes) return 0;
  const bool is_rounded = size_bytes <= bytes_of(settings.pinned_max_round_threshold_mb) &&
                          size_bytes <= bytes_of(settings.pinned_max_cached_size_mb);
  return is_rounded ? std::bit_ceil(size_bytes) : size_bytes;
}

std::size_t size_class(std::uint64_t size_bytes) {
  return size_bytes <= 1 ? 0 : static_cast<std::size_t>(std::bit_width(size_bytes - 1));
}

HostCache::HostCache(HostDriver& driver, const caching::Settings& settings)
    : driver_(driver), settings_(settings) {
  default_pool_.counters = &default_pool_.own;
}

HostCache::~HostCache() {
  const auto forget = [&](const Pool& pool) {
    for (const Wait& wait : pool.waits) driver_.destroy_event(wait.event);
  };
  forget(default_pool_);
  for (const auto& [number, pool] : pools_) forget(*pool);
  for (const auto& [address, block] : blocks_) unpin(*block);
  if (segment_.first != 0) driver_.unpin(segment_.first, segment_.kind);
}

PinnedBlock HostCache::allocate(std::uint64_t size_bytes) {
  if (size_bytes == 0) return {};
  Pool& pool = current_pool();
  const bool in_background = settings_.pinned_use_background_threads && &pool == &default_pool_;
  if (!in_background) take_passed_unless_capturing(pool);
  const std::uint64_t wanted_bytes = block_bytes(size_bytes, settings_);
  if (wanted_bytes == 0) return {};
  Block* block = take_free(wanted_bytes, pool);
  if (block == nullptr && settings_.pinned_use_background_threads) {
    if (rules().searches_waiting) {
      take_passed_of_size(wanted_bytes, pool);
      block = take_free(wanted_bytes, pool);
    }
    if (block == nullptr) has_background_thread_ = true;
  }
  if (block == nullptr) block = pin_block(wanted_bytes, pool);
  if (block == nullptr) return {};
  block->is_captured = capturing_ != 0;
  return {.address = block->address, .size_bytes = block->size_bytes};
}

bool HostCache::use(Address address, Stream stream) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return false;
  found->second->streams.insert(stream);
  return true;
}

void HostCache::deallocate(Address address) {
  if (address == 0) return;
  const auto found = blocks_.find(address);
  ALLOCMARK_ASSERT(found != blocks_.end());
  Block* const block = found->second.get();
  const std::set<Stream> streams = std::exchange(block->streams, {});
  if (streams.empty()) {
    return_block(block, signed_of(block->size_bytes), false);
    return;
  }
  block->waiting_count += streams.size();
  if (block->is_captured) return;  // for good: what a graph used must not change its owner
  for (const Stream stream : streams) {
    block->pool->waits.push_front({.event = driver_.record_event(stream), .block = block});
  }
}

void HostCache::empty_cache() {
  take_passed_unless_capturing(default_pool_);
  empty_pool(default_pool_);
  for (auto next = pools_.begin(); next != pools_.end();) {
    Pool& pool = *next->second;
    if (pool.use_count > 0) {
      ++next;
      continue;
    }
    take_passed_unless_capturing(pool);
    empty_pool(pool);
    const bool is_gone = pool.blocks.empty();
    if (is_gone && pool.counters == &pool.own) default_pool_.own.add(pool.own);
    next = is_gone ? pools_.erase(next) : std::next(next);
  }
}

void HostCache::background_pass() {
  if (has_background_thread_) take_passed(default_pool_);
}

void HostCache::begin_capture(std::uint64_t pool) {
  ALLOCMARK_ASSERT(pool != 0);
  ALLOCMARK_ASSERT(capturing_ == 0);
  capturing_ = pool;
  if (!rules().has_pools) return;
  auto& entry = pools_[pool];
  if (entry == nullptr) {
    entry = std::make_unique<Pool>();
    entry->counters = rules().counts_per_pool ? &entry->own : &default_pool_.own;
  } else {
    ++entry->use_count;
  }
}

void HostCache::end_capture() {
  ALLOCMARK_ASSERT(capturing_ != 0);
  capturing_ = 0;
}

void HostCache::release_pool(std::uint64_t pool) {
  const auto found = pools_.find(pool);
  if (found == pools_.end()) return;  // of a release without pools
  ALLOCMARK_ASSERT(found->second->use_count > 0);
  --found->second->use_count;
}

HostStatistics HostCache::statistics() const {
  ClassCounters classes = default_pool_.own;
  for (const auto& [number, pool] : pools_) {
    if (pool->counters == &pool->own) classes.add(pool->own);
  }
  return host_statistics(whole_, classes, rules().counting);
}

void HostCache::reset_peak() {
  whole_.blocks.reset_peak();
  whole_.block_bytes.reset_peak();
  const auto reset = [](HostStat& stat) { stat.reset_peak(); };
  default_pool_.own.each(reset);
  for (const auto& [number, pool] : pools_) pool->own.each(reset);
}

void HostCache::reset_accumulated() {
  whole_.blocks.reset_accumulated();
  whole_.block_bytes.reset_accumulated();
  whole_.pin_count = whole_.unpin_count = 0;
  const auto reset = [](HostStat& stat) { stat.reset_accumulated(); };
  default_pool_.own.each(reset);
  for (const auto& [number, pool] : pools_) pool->own.each(reset);
}

HostCache::Pool& HostCache::current_pool() {
  const auto found = pools_.find(capturing_);
  return found == pools_.end() ? default_pool_ : *found->second;
}

HostCache::Block* HostCache::take_free(std::uint64_t size_bytes, Pool& pool) {
  const std::size_t index = size_class(size_bytes);
  std::vector<Block*>& free = pool.free[index];
  const bool looks_at_size = rules().looks_at_size;
  for (std::size_t i = free.size(); i-- > 0;) {
    Block* const block = free[i];
    if (looks_at_size && block->size_bytes < size_bytes) continue;
    free.erase(free.begin() + static_cast<std::ptrdiff_t>(i));
    pool.counters->active_requests[index].increase(1);
    pool.counters->active_bytes[index].increase(
        signed_of(looks_at_size ? block->size_bytes : size_bytes));
    return block;
  }
  return nullptr;
}

HostCache::Block* HostCache::pin_block(std::uint64_t size_bytes, Pool& pool) {
  if (!asked_for_segment_) {
    segment_.size_bytes = bytes_of(settings_.pinned_reserve_segment_size_mb);
    segment_.kind = kind_of(settings_);
    if (segment_.size_bytes > 0) {
      segment_.first = pin(segment_.size_bytes, segment_.kind);
      if (segment_.first == 0) return nullptr;  // the next request asks for it again
    }
    asked_for_segment_ = true;
  }
  auto block = std::make_unique<Block>(
      Block{.size_bytes = size_bytes, .pool = &pool, .kind = kind_of(settings_)});
  block->address = take_from_segment(size_bytes);
  block->is_reserved = block->address != 0;
  if (!block->is_reserved) block->address = pin(size_bytes, block->kind);
  if (block->address == 0) return nullptr;
  whole_.blocks.increase(1);
  whole_.block_bytes.increase(signed_of(size_bytes));
  const std::size_t index = size_class(size_bytes);
  pool.counters->active_requests[index].increase(1);
  pool.counters->active_bytes[index].increase(signed_of(size_bytes));
  pool.blocks.insert(block.get());
  return (blocks_[block->address] = std::move(block)).get();
}

Address HostCache::pin(std::uint64_t size_bytes, PinKind kind) {
  const Address address = driver_.pin(size_bytes, kind, settings_.pinned_num_register_threads);
  if (address == 0) return 0;
  ++whole_.pin_count;
  pinned_bytes_ += size_bytes;
  pinned_bytes_peak_ = std::max(pinned_bytes_peak_, pinned_bytes_);
  return address;
}

Address HostCache::take_from_segment(std::uint64_t size_bytes) {
  const std::uint64_t step_bytes =
      (size_bytes + kSegmentStepBytes - 1) / kSegmentStepBytes * kSegmentStepBytes;
  if (segment_.first == 0 || step_bytes > segment_.size_bytes - segment_.used_bytes) return 0;
  const Address address = segment_.first + segment_.used_bytes;
  segment_.used_bytes += step_bytes;
  return address;
}

// PyTorch asks for no event while its current stream is captured. Its thread's own stream is not.
void HostCache::take_passed_unless_capturing(Pool& pool) {
  if (capturing_ == 0) take_passed(pool);
}

void HostCache::take_passed(Pool& pool) {
  while (!pool.waits.empty() && driver_.event_done(pool.waits.back().event)) {
    const Wait wait = pool.waits.back();
    pool.waits.pop_back();
    (void)settle(wait, kNoSize);
  }
}

void HostCache::take_passed_of_size(std::uint64_t size_bytes, Pool& pool) {
  // Those of other sizes, and those that have not passed, go to the other end: the order changes.
  // PyTorch looks at one more than there are, and turns one more before it stops.
  const std::size_t count = pool.waits.size();
  for (std::size_t i = 0; !pool.waits.empty(); ++i) {
    const Wait wait = pool.waits.back();
    pool.waits.pop_back();
    if (i > count || wait.block->size_bytes != size_bytes || !driver_.event_done(wait.event)) {
      pool.waits.push_front(wait);
      if (i > count) return;
    } else if (settle(wait, signed_of(size_bytes))) {
      return;
    }
  }
}

// True where it was the last event of its block, which then has a free place again.
bool HostCache::settle(const Wait& wait, std::int64_t counted_bytes) {
  driver_.destroy_event(wait.event);
  Block* const block = wait.block;
  if (--block->waiting_count > 0) return false;
  return_block(block, rules().miscounts_waited_bytes ? counted_bytes : signed_of(block->size_bytes),
               true);
  return true;
}

void HostCache::return_block(Block* block, std::int64_t counted_bytes, bool waited) {
  const std::size_t index = size_class(block->size_bytes);
  if (waited || rules().counting != HostCounting::ActiveLeaks) {
    block->pool->counters->active_requests[index].decrease(1);
    block->pool->counters->active_bytes[index].decrease(counted_bytes);
  }
  if (block->size_bytes > bytes_of(settings_.pinned_max_cached_size_mb)) {
    destroy(block);
  } else {
    block->pool->free[index].push_back(block);
  }
}

void HostCache::destroy(Block* block) {
  unpin(*block);
  whole_.blocks.decrease(1);
  whole_.block_bytes.decrease(signed_of(block->size_bytes));
  block->pool->blocks.erase(block);
  blocks_.erase(block->address);
}

void HostCache::empty_pool(Pool& pool) {
  for (std::vector<Block*>& free : pool.free) {
    for (Block* const block : std::exchange(free, {})) destroy(block);
  }
}

void HostCache::unpin(const Block& block) {
  if (block.is_reserved) return;
  driver_.unpin(block.address, block.kind);
  pinned_bytes_ -= block.size_bytes;
  ++whole_.unpin_count;
}

}  // namespace allocmark::host_caching
