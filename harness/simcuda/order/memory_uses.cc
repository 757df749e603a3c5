#include "harness/simcuda/order/memory_uses.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace simcuda::order {
namespace {

// The first segment that ends behind `lo`.
template <class Segments>
auto first_behind(Segments& segments, std::uint64_t lo) {
  auto at = segments.upper_bound(lo);
  if (at != segments.begin() && std::prev(at)->second.end > lo) --at;
  return at;
}

// A boundary at `place`, where it lies inside a segment.
template <class Segments>
void split(Segments& segments, std::uint64_t place) {
  const auto at = first_behind(segments, place);
  if (at == segments.end() || at->first >= place) return;
  auto rest = at->second;
  at->second.end = place;
  segments.emplace(place, std::move(rest));
}

template <class Segments>
void erase(Segments& segments, Piece piece) {
  split(segments, piece.lo);
  split(segments, piece.hi);
  segments.erase(segments.lower_bound(piece.lo), segments.lower_bound(piece.hi));
}

}  // namespace

std::optional<UnorderedUse> MemoryUses::take(std::span<const Piece> pieces, Owner owner,
                                             Stream stream) {
  order_.begin(stream);
  std::optional<UnorderedUse> found;
  for (const Piece& piece : pieces) {
    if (!found) found = unordered_use(piece, stream);
    if (!found) found = unordered_allocation(piece, stream);
    // Who follows the new owner follows the old ones too; who does not is found at the new owner.
    erase(uses_, piece);
  }
  taken_[owner.request] = order_.now();
  return found;
}

std::optional<UnorderedUse> MemoryUses::unordered_use(Piece piece, Stream stream) {
  for (auto at = first_behind(uses_, piece.lo); at != uses_.end() && at->first < piece.hi; ++at) {
    for (const Use& use : at->second.uses) {
      if (order_.ordered(use.stream, use.epoch, stream)) continue;
      const Piece both{std::max(piece.lo, at->first), std::min(piece.hi, at->second.end)};
      if (!pool_orders(use, both, stream)) return describe(use);
    }
  }
  return std::nullopt;
}

// Whether a pool took all of the memory back after the use and gave it to a stream that `stream`
// follows.
bool MemoryUses::pool_orders(const Use& use, Piece piece, Stream stream) const {
  std::uint64_t covered = piece.lo;
  for (auto at = first_behind(pools_, piece.lo); at != pools_.end() && at->first < piece.hi; ++at) {
    const PoolSegment& segment = at->second;
    if (at->first > covered || !segment.is_out || segment.released == nullptr) return false;
    if (segment.released->of(use.stream) < use.epoch) return false;
    if (!order_.ordered(segment.stream, segment.epoch, stream)) return false;
    covered = segment.end;
  }
  return covered >= piece.hi;
}

std::optional<UnorderedUse> MemoryUses::unordered_allocation(Piece piece, Stream stream) const {
  for (auto at = first_behind(pools_, piece.lo); at != pools_.end() && at->first < piece.hi; ++at) {
    const PoolSegment& segment = at->second;
    if (!segment.is_out || order_.ordered(segment.stream, segment.epoch, stream)) continue;
    return UnorderedUse{.owner = {},
                        .size_bytes = segment.end - at->first,
                        .stream = segment.stream,
                        .missing = Missing::Allocation};
  }
  return std::nullopt;
}

UnorderedUse MemoryUses::describe(const Use& use) const {
  UnorderedUse result{.owner = use.owner, .size_bytes = use.size_bytes, .stream = use.stream};
  const Moment last = order_.last_record(use.stream);
  if (last > use.ended) {
    result.missing = Missing::Wait;
  } else if (last > use.taken) {
    result.missing = Missing::LaterEvent;
  } else if (order_.last_record_elsewhere(use.stream) > use.ended) {
    result.missing = Missing::RightEvent;
  }
  return result;
}

void MemoryUses::give_back(std::span<const Piece> pieces, Owner owner,
                           std::span<const Stream> streams) {
  std::uint64_t size_bytes = 0;
  for (const Piece& piece : pieces) size_bytes += piece.hi - piece.lo;
  const auto taken = taken_.find(owner.request);
  std::vector<Use> uses;
  for (const Stream stream : streams) {
    order_.begin(stream);
    uses.push_back({.owner = owner,
                    .size_bytes = size_bytes,
                    .stream = stream,
                    .epoch = order_.epoch(stream),
                    .taken = taken == taken_.end() ? 0 : taken->second,
                    .ended = order_.now()});
  }
  if (taken != taken_.end()) taken_.erase(taken);
  for (const Piece& piece : pieces) {
    if (piece.lo >= piece.hi) continue;
    // A second owner of the same bytes at the same time is another rule's business.
    erase(uses_, piece);
    uses_.emplace(piece.lo, Segment{.end = piece.hi, .uses = uses});
  }
}

void MemoryUses::pool_took(Piece piece, Stream stream) {
  const VectorClock now = order_.snapshot(stream);
  pool_takes(piece, now);
}

void MemoryUses::pool_took_now(Piece piece) { pool_takes(piece, order_.host()); }

// What was before the pool's last gift of these bytes is before this free as well, where the free
// follows the gift.
void MemoryUses::pool_takes(Piece piece, const VectorClock& now) {
  split(pools_, piece.lo);
  split(pools_, piece.hi);
  const auto plain = std::make_shared<const VectorClock>(now);
  std::uint64_t covered = piece.lo;
  for (auto at = pools_.lower_bound(piece.lo); covered < piece.hi;) {
    if (at == pools_.end() || at->first > covered) {
      const std::uint64_t end = at == pools_.end() ? piece.hi : std::min(piece.hi, at->first);
      at = pools_.emplace_hint(at, covered, PoolSegment{.end = end, .released = {}});
    }
    PoolSegment& segment = at->second;
    const bool follows =
        segment.is_out && segment.released != nullptr && now.of(segment.stream) >= segment.epoch;
    if (follows) {
      auto both = std::make_shared<VectorClock>(now);
      both->join(*segment.released);
      segment.released = std::move(both);
    } else {
      segment.released = plain;
    }
    segment.is_out = false;
    covered = segment.end;
    ++at;
  }
}

void MemoryUses::pool_gave(Piece piece, Stream stream) {
  split(pools_, piece.lo);
  split(pools_, piece.hi);
  const Epoch epoch = order_.epoch(stream);
  std::uint64_t covered = piece.lo;
  for (auto at = pools_.lower_bound(piece.lo); covered < piece.hi;) {
    if (at == pools_.end() || at->first > covered) {
      const std::uint64_t end = at == pools_.end() ? piece.hi : std::min(piece.hi, at->first);
      at = pools_.emplace_hint(at, covered, PoolSegment{.end = end, .released = {}});
    }
    at->second.is_out = true;
    at->second.stream = stream;
    at->second.epoch = epoch;
    covered = at->second.end;
    ++at;
  }
}

void MemoryUses::forget_all() {
  uses_.clear();
  pools_.clear();
}

}  // namespace simcuda::order
