// Private pools: who uses one, which requests go to it, and when what it has cached can go back to
// the device. In a graph's capture blocks that other streams use are not freed, and no cache is
// given back. Up to PyTorch 2.12 the allocator behaves so while requests are routed to a pool.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocators/caching/allocator.h"
#include "base/error.h"

namespace allocmark::caching {
namespace {

[[noreturn]] void refuse(std::uint64_t id, const char* call, std::string got) {
  throw EnvironmentError({.what = "PyTorch's allocator stops here with an internal error",
                          .where = std::string(call) + " of private pool " + std::to_string(id),
                          .wanted = "a pool that is used, and routed to at most once",
                          .got = std::move(got)});
}

}  // namespace

PrivatePool& CachingAllocator::used_pool(std::uint64_t id, const char* call) {
  const auto found = heap_.private_pools.find(id);
  if (found == heap_.private_pools.end()) refuse(id, call, "no such pool");
  if (found->second.use_count == 0) refuse(id, call, "a pool that was released");
  return found->second;
}

void CachingAllocator::use_pool(std::uint64_t id) {
  if (heap_.private_pools.contains(id)) {
    ++used_pool(id, "createOrIncrefPool").use_count;
  } else {
    (void)heap_.make_private_pool(id);
  }
}

// A pool that is routed to already keeps the use that failed, as in PyTorch.
void CachingAllocator::begin_pool(std::uint64_t id, std::optional<Stream> stream) {
  use_pool(id);
  if (std::ranges::find(scopes_, id, &Scope::id) != scopes_.end())
    refuse(id, "beginAllocateToPool", "a pool that is routed to");
  scopes_.push_back({.id = id, .stream = stream});
}

void CachingAllocator::end_pool(std::uint64_t id) {
  const auto scope = std::ranges::find(scopes_, id, &Scope::id);
  if (scope == scopes_.end()) refuse(id, "endAllocateToPool", "a pool that is not routed to");
  if (settings_.graph_capture_record_stream_reuse && settings_.rules->frees_at_pool_end)
    end_deferral(&heap_.private_pools.at(id));
  scopes_.erase(scope);
}

void CachingAllocator::release_pool(std::uint64_t id) { --used_pool(id, "releasePool").use_count; }

void CachingAllocator::use_pool_on_oom(std::uint64_t id, bool on) {
  std::erase(overflow_, id);
  if (on) overflow_.push_back(id);
}

void CachingAllocator::begin_capture(Stream stream) {
  captured_.push_back(stream);
  on_captured_stream_ = true;
}

void CachingAllocator::end_capture(Stream stream) {
  std::erase(captured_, stream);
  on_captured_stream_ = !captured_.empty();
}

// The scope that was begun last decides.
const PrivatePool* CachingAllocator::routed_owner(Stream stream) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (!scope->stream || *scope->stream == stream) return &heap_.private_pools.at(scope->id);
  }
  return nullptr;
}

Pool& CachingAllocator::pool_of_scopes(PoolKind kind, Stream stream) {
  const PrivatePool* owner = routed_owner(stream);
  return owner == nullptr ? heap_.pool(kind) : heap_.private_pools.at(owner->id).of(kind);
}

bool CachingAllocator::restore_block(std::uint64_t id, std::uint64_t address,
                                     std::uint64_t size_bytes) {
  const auto found = heap_.private_pools.find(id);
  if (found == heap_.private_pools.end()) return false;
  for (Pool* pool : {&found->second.small, &found->second.large}) {
    for (Block* block : pool->free_blocks()) {
      if (block->address != address || block->size_bytes < size_bytes) continue;
      SortedBlocks& free = block->home->free;
      const SortedBlocks::Position position = free.find(block->size_bytes, block);
      count_taken(*block, size_bytes);
      const bool whole = block->size_bytes == size_bytes;
      Request request{.requested_bytes = size_bytes, .size_bytes = size_bytes};
      request.home = block->home;
      if (whole) {
        free.erase(position);
      } else {
        block = heap_.split_front_of_free(free, position, size_bytes);
      }
      static_cast<void>(hand_out(block, request));
      return true;
    }
  }
  return false;
}

// A cached block of a pool that serves when memory is out; null where none has one. Only for
// requests to the common pools, and never a block of an expandable segment.
Block* CachingAllocator::take_overflow(Request& request) {
  if (request.home->pool->owner != nullptr || overflow_.empty()) return nullptr;
  Settings plain = settings_;
  plain.expandable_segments = false;
  const PoolKind kind = request.home->pool->kind;
  const Stream stream = request.home->stream;
  for (const std::uint64_t id : overflow_) {
    begin_pool(id, std::nullopt);
    Pool& pool = heap_.private_pools.at(id).of(kind);
    if (collects_garbage()) ++pool.probe_count;
    Request lent = request;
    lent.home = &pool.of(stream);
    const SortedBlocks::Position position = choose_free_block(lent, plain);
    Block* block = lent.home->free.at(position);
    if (block != nullptr) lent.home->free.erase(position);
    end_pool(id);
    release_pool(id);
    if (block == nullptr) continue;
    lent.whole = !should_split(*block, lent.size_bytes, plain);
    request = lent;
    return block;
  }
  return nullptr;
}

void CachingAllocator::wait_for_uses(Block* block) {
  if (captures()) {
    events_.defer(block);
  } else {
    events_.insert(block);
  }
}

void CachingAllocator::note_capture_use(Block* block, Stream stream) {
  std::vector<Stream>& uses = capture_uses_[block];
  if (!block->has_capture_uses) uses.clear();
  block->has_capture_uses = true;
  if (std::ranges::find(uses, stream) == uses.end()) uses.push_back(stream);
}

// What a capture recorded is over when the capture is.
void CachingAllocator::forget_capture_uses(Block* block) {
  if (!block->has_capture_uses) return;
  const auto noted = capture_uses_.find(block);
  std::erase_if(block->stream_uses, [&](Stream stream) {
    return std::ranges::find(noted->second, stream) != noted->second.end();
  });
  capture_uses_.erase(noted);
  block->has_capture_uses = false;
}

// The uses of deferred blocks, of the pool or of all, become events at last.
void CachingAllocator::end_deferral(const PrivatePool* pool) {
  const auto chosen = [pool](const Block& block) {
    return pool == nullptr || block.home->pool->owner == pool;
  };
  for (Block* block : events_.take_deferred(chosen)) {
    forget_capture_uses(block);
    events_.insert(block);
    free_if_unused(block);
  }
}

// Gives back what pools without a user have cached, of all of them or of one, and forgets those
// that have nothing left. PyTorch goes by its count of requests that the device served. Where that
// is 0 too early, it forgets a pool whose blocks are still there, and reads freed memory later.
void CachingAllocator::release_unused(std::uint64_t private_id) {
  std::vector<PrivatePool*> unused;
  for (auto& [id, pool] : heap_.private_pools) {
    if (pool.use_count == 0 && (private_id == 0 || private_id == id)) unused.push_back(&pool);
  }
  for (PrivatePool* pool : unused) {
    if (private_id != 0) {
      if (captures()) refuse(private_id, "emptyCache", "another pool that is routed to");
      ++heap_.counters.num_sync_all_streams;
      end_deferral(nullptr);
      events_.wait_and_take_all_of(*pool, [this](Block* block) { free_if_unused(block); });
    }
    release_blocks(pool->small);
    release_blocks(pool->large);
    if (pool->device_count > 0) continue;
    if (pool->reserved_bytes > 0) {
      ++heap_.pool_count_error_count;
    } else {
      heap_.private_pools.erase(pool->id);
    }
  }
}

}  // namespace allocmark::caching
