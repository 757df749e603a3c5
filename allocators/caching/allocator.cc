#include "allocators/caching/allocator.h"

#include <algorithm>

#include "allocators/caching/sizes.h"

namespace allocmark::caching {
namespace {

std::optional<std::uint64_t> limit_of(Driver& driver, const Settings& settings,
                                      std::uint64_t limit_bytes) {
  if (limit_bytes > 0) return limit_bytes;
  const double fraction = settings.per_process_memory_fraction;
  if (fraction == 1.0) return std::nullopt;
  return static_cast<std::uint64_t>(fraction * static_cast<double>(driver.device_total_bytes()));
}

}  // namespace

CachingAllocator::CachingAllocator(Driver& driver, const Settings& settings,
                                   std::uint64_t memory_limit_bytes)
    : driver_(driver),
      settings_(settings),
      limit_bytes_(limit_of(driver, settings, memory_limit_bytes)),
      heap_(driver, settings_),
      events_(driver) {
  heap_.counters.max_split_size = signed_bytes(settings.max_split_size_bytes);
  if (settings.rules->counts_rejections) heap_.counters.num_oom_rejections = 0;
}

CachingAllocator::~CachingAllocator() { heap_.give_back_all(waiting_blocks()); }

Block* CachingAllocator::serve_beside_capture(std::uint64_t size_bytes, Stream stream) {
  on_captured_stream_ = std::ranges::find(captured_, stream) != captured_.end();
  Block* const block = serve(size_bytes, stream);
  on_captured_stream_ = true;
  return block;
}

// With all that a hit calls in one function: what is rarely called has noinline (allocator.h).
[[gnu::flatten]] Block* CachingAllocator::serve(std::uint64_t size_bytes, Stream stream) {
  if (!events_.empty()) process_events();
  Request request = make_request(size_bytes, stream);
  if (collects_garbage()) ++request.home->pool->probe_count;
  const SortedBlocks::Position position = choose_free_block(request, settings_);
  if (request.home->free.at(position) != nullptr)
    return hand_out(take_cached(position, request), request);
  request.segment_bytes = segment_size(request.size_bytes, settings_);
  Block* block = obtain(request);
  if (block == nullptr) {
    note_failure(request);
    return nullptr;
  }
  return hand_out(take_new(block, request), request);
}

void CachingAllocator::process_events() {
  if (captures()) return;
  end_deferral(nullptr);
  events_.take_done([this](Block* block) { free_if_unused(block); });
}

Request CachingAllocator::make_request(std::uint64_t size_bytes, Stream stream) {
  Request request{.requested_bytes = size_bytes,
                  .size_bytes = round_request(size_bytes, settings_)};
  const PoolKind kind = is_small(request.size_bytes) ? PoolKind::Small : PoolKind::Large;
  request.home = &routed_pool(kind, stream).of(stream);
  return request;
}

// The cache has nothing: every further step frees more and asks the device again. The cache itself
// is not searched again, as in PyTorch (its issue 189504).
Block* CachingAllocator::obtain(Request& request) {
  rejected_ = false;
  if (collects_garbage()) collect_garbage();
  Block* block = ask_device(request, Attempt::First);
  if (block == nullptr && !rejected_) block = take_overflow(request);
  if (block == nullptr && !rejected_ && release_oversize(request))
    block = ask_device(request, Attempt::First);
  if (block == nullptr && !rejected_ && !captures()) {
    release_cached();
    block = ask_device(request, Attempt::Retry);
  }
  return block;
}

// The limit counts the whole segment even where an expandable one would grow by less.
Block* CachingAllocator::ask_device(const Request& request, Attempt attempt) {
  driver_.check_pending_error();
  if (attempt == Attempt::Retry) ++heap_.counters.num_alloc_retries;
  if (limit_bytes_ && heap_.reserved_bytes() + request.segment_bytes > *limit_bytes_)
    return nullptr;
  if (settings_.throw_on_cudamalloc_oom && must_reject(request)) {
    rejected_ = true;
    return nullptr;
  }
  Block* block = settings_.expandable_segments
                     ? heap_.make_expandable(*request.home, request.size_bytes)
                     : heap_.make_segment(*request.home, request.segment_bytes);
  if (block != nullptr) Heap::count_served(*request.home->pool);
  return block;
}

// PyTorch reads the fraction anew here, but the limit was made of it when the allocator was: with
// the fraction set from the start the limit comes first, and this is never reached.
bool CachingAllocator::must_reject(const Request& request) const {
  const double total_bytes = static_cast<double>(driver_.device_total_bytes());
  const auto allowed_bytes =
      static_cast<std::uint64_t>(settings_.per_process_memory_fraction * total_bytes);
  return heap_.reserved_bytes() + request.segment_bytes > allowed_bytes;
}

// Takes what stands there, or the front of it.
Block* CachingAllocator::take_cached(SortedBlocks::Position position, const Request& request) {
  SortedBlocks& free = request.home->free;
  Block* block = free.at(position);
  const bool splits = should_split(*block, request.size_bytes, settings_);
  count_taken(*block, splits ? request.size_bytes : block->size_bytes);
  if (splits) return heap_.split_front_of_free(free, position, request.size_bytes);
  free.erase(position);
  return block;
}

// Takes a block in no set, or the front of it.
Block* CachingAllocator::take_new(Block* block, const Request& request) {
  const bool splits = !request.whole && should_split(*block, request.size_bytes, settings_);
  count_taken(*block, splits ? request.size_bytes : block->size_bytes);
  if (!splits) return block;
  Block* front = heap_.split_front(block, request.size_bytes);
  heap_.insert_free(block);
  return front;
}

// Of a segment's free parts, one gives so many bytes, or all. A block that is not split yet was
// none of them, but its rest becomes one.
void CachingAllocator::count_taken(const Block& block, std::uint64_t taken_bytes) {
  if (block.segment != nullptr) return;
  const std::int64_t bytes_before = block.is_split() ? signed_bytes(block.size_bytes) : 0;
  const std::int64_t bytes_after = signed_bytes(block.size_bytes - taken_bytes);
  const PoolKind kind = block.home->pool->kind;
  heap_.counters.inactive_split.change(kind,
                                       (bytes_after > 0 ? 1 : 0) - (bytes_before > 0 ? 1 : 0));
  heap_.counters.inactive_split_bytes.change(kind, bytes_after - bytes_before);
}

Block* CachingAllocator::hand_out(Block* block, const Request& request) {
  block->allocated = true;
  block->requested_bytes = request.requested_bytes;
  heap_.allocated.insert(block);
  const PoolKind kind = request.home->pool->kind;
  Counters& counters = heap_.counters;
  counters.allocation.increase(kind, 1);
  counters.allocated_bytes.increase(kind, signed_bytes(block->size_bytes));
  counters.active.increase(kind, 1);
  counters.active_bytes.increase(kind, signed_bytes(block->size_bytes));
  heap_.count_used(*request.home->pool, block->size_bytes);
  counters.requested_bytes.increase(kind, signed_bytes(request.requested_bytes));
  if (block->size_bytes >= settings_.max_split_size_bytes)
    counters.oversize_allocations.increase(1);
  return block;
}

[[gnu::flatten]] bool CachingAllocator::deallocate(std::uint64_t address) {
  const PointerMap::Found found = heap_.allocated.look_up(address);
  Block* block = found.block;
  if (block == nullptr) return false;
  // Events come first: where recording fails nothing has changed, and the caller may try again.
  if (!block->stream_uses.empty()) wait_for_uses(block);
  heap_.allocated.remove(found);
  block->allocated = false;
  Counters& counters = heap_.counters;
  counters.allocation.decrease(block->home->pool->kind, 1);
  counters.allocated_bytes.decrease(block->home->pool->kind, signed_bytes(block->size_bytes));
  if (block->size_bytes >= settings_.max_split_size_bytes)
    counters.oversize_allocations.decrease(1);
  free_if_unused(block);
  return true;
}

// A block can lose its last event while it is still owned: when giving it back failed half-way.
void CachingAllocator::free_if_unused(Block* block) {
  if (block->is_unused()) heap_.free_block(block);
}

bool CachingAllocator::record_stream(std::uint64_t address, Stream stream) {
  Block* block = heap_.allocated.find(address);
  if (block == nullptr) return false;
  if (block->home->stream == stream) return true;
  std::vector<Stream>& uses = block->stream_uses;
  if (std::ranges::find(uses, stream) == uses.end()) uses.push_back(stream);
  if (captures()) note_capture_use(block, stream);
  return true;
}

void CachingAllocator::empty_cache() { release_cached(); }

std::vector<Block*> CachingAllocator::waiting_blocks() const {
  std::vector<Block*> blocks;
  events_.for_each([&](Block* block) {
    if (!block->allocated) blocks.push_back(block);
  });
  std::ranges::sort(blocks);
  // clang 14 does not compile libstdc++'s std::ranges::unique.
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

}  // namespace allocmark::caching
