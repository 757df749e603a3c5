#include "allocators/stitch/small_heap.h"

#include <iterator>

#include "base/assert.h"

namespace allocmark::stitch {

void SmallHeap::set_free(Pieces::iterator at, bool free) {
  at->second.free = free;
  const std::pair key(at->second.size_bytes, at->first);
  if (free) {
    free_.insert(key);
    free_bytes_ += at->second.size_bytes;
  } else {
    free_.erase(key);
    free_bytes_ -= at->second.size_bytes;
  }
}

std::optional<std::uint64_t> SmallHeap::take(std::uint64_t size_bytes) {
  const auto found = free_.lower_bound({size_bytes, 0});
  if (found == free_.end()) return std::nullopt;
  const auto at = pieces_.find(found->second);
  set_free(at, false);
  const std::uint64_t rest_bytes = at->second.size_bytes - size_bytes;
  if (rest_bytes > 0) {
    at->second.size_bytes = size_bytes;
    const auto rest = pieces_.emplace_hint(
        std::next(at), at->first + size_bytes,
        Piece{.size_bytes = rest_bytes, .slab_order = at->second.slab_order, .free = false});
    set_free(rest, true);
  }
  return at->first;
}

void SmallHeap::join_next(Pieces::iterator at) {
  const auto next = std::next(at);
  if (next == pieces_.end() || !next->second.free ||
      next->second.slab_order != at->second.slab_order) {
    return;
  }
  set_free(next, false);
  set_free(at, false);
  at->second.size_bytes += next->second.size_bytes;
  pieces_.erase(next);
  set_free(at, true);
}

std::optional<std::uint64_t> SmallHeap::give(std::uint64_t order) {
  auto at = pieces_.find(order);
  ALLOCMARK_ASSERT(at != pieces_.end());
  ALLOCMARK_ASSERT(!at->second.free);
  set_free(at, true);
  join_next(at);
  if (at != pieces_.begin()) {
    const auto before = std::prev(at);
    if (before->second.free && before->second.slab_order == at->second.slab_order) {
      join_next(before);
      at = before;
    }
  }
  const std::uint64_t slab_order = at->second.slab_order;
  const auto slab = slab_bytes_.find(slab_order);
  if (at->second.size_bytes != slab->second) return std::nullopt;
  set_free(at, false);
  pieces_.erase(at);
  slab_bytes_.erase(slab);
  return slab_order;
}

void SmallHeap::add_slab(std::uint64_t order, std::uint64_t size_bytes) {
  slab_bytes_.emplace(order, size_bytes);
  const auto at =
      pieces_.emplace(order, Piece{.size_bytes = size_bytes, .slab_order = order, .free = false})
          .first;
  set_free(at, true);
}

}  // namespace allocmark::stitch
