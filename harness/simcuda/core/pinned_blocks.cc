// See pinned_blocks.h.
#include "harness/simcuda/core/pinned_blocks.h"

#include <iterator>

#include "base/assert.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kSlabBytes = kPageBytes;
constexpr std::uint64_t kLongStepBytes = 4096;

}  // namespace

std::uint64_t PinnedBlocks::missing_bytes(std::uint64_t size_bytes) const {
  if (size_bytes > kSlabBytes) return round_up(size_bytes, kLongStepBytes);
  const bool has_hole = free_.lower_bound(round_up(size_bytes, kUnitBytes)) != free_.end();
  return has_hole ? 0 : kSlabBytes;
}

std::uint64_t PinnedBlocks::place(std::uint64_t size_bytes, std::uint64_t pinned) {
  const std::uint64_t missing = missing_bytes(size_bytes);
  if (size_bytes > kSlabBytes) {
    pieces_[pinned] = {.size_bytes = missing, .slab = 0, .is_in_slab = false, .is_free = false};
    return pinned;
  }
  if (missing > 0) {
    pieces_[pinned] = {
        .size_bytes = kSlabBytes, .slab = pinned, .is_in_slab = true, .is_free = true};
    free_.emplace(kSlabBytes, pinned);
  }
  const std::uint64_t taken_bytes = round_up(size_bytes, kUnitBytes);
  const auto fit = free_.lower_bound(taken_bytes);
  const std::uint64_t address = fit->second;
  free_.erase(fit);
  Piece& piece = pieces_.at(address);
  const std::uint64_t rest_bytes = piece.size_bytes - taken_bytes;
  piece.size_bytes = taken_bytes;
  piece.is_free = false;
  if (rest_bytes > 0) {
    pieces_[address + taken_bytes] = {
        .size_bytes = rest_bytes, .slab = piece.slab, .is_in_slab = true, .is_free = true};
    free_.emplace(rest_bytes, address + taken_bytes);
  }
  return address;
}

Range PinnedBlocks::remove(std::uint64_t address) {
  auto piece = pieces_.find(address);
  ALLOCMARK_ASSERT(piece != pieces_.end());
  ALLOCMARK_ASSERT(!piece->second.is_free);
  if (!piece->second.is_in_slab) {
    const Range block = {address, address + piece->second.size_bytes};
    pieces_.erase(piece);
    return block;
  }
  const std::uint64_t slab = piece->second.slab;
  piece->second.is_free = true;
  free_.emplace(piece->second.size_bytes, address);
  join(piece);
  if (address != slab) {
    piece = std::prev(piece);
    if (piece->second.is_free) join(piece);
  }
  const auto first = pieces_.find(slab);
  if (!first->second.is_free || first->second.size_bytes != kSlabBytes) return {};
  forget_free(first);
  pieces_.erase(first);
  return {slab, slab + kSlabBytes};
}

void PinnedBlocks::join(Pieces::iterator piece) {
  const auto behind = std::next(piece);
  const bool joins = behind != pieces_.end() && behind->second.is_free &&
                     behind->second.is_in_slab && behind->second.slab == piece->second.slab;
  if (!joins) return;
  forget_free(piece);
  forget_free(behind);
  piece->second.size_bytes += behind->second.size_bytes;
  pieces_.erase(behind);
  free_.emplace(piece->second.size_bytes, piece->first);
}

void PinnedBlocks::forget_free(Pieces::iterator piece) {
  auto [one, end] = free_.equal_range(piece->second.size_bytes);
  while (one != end && one->second != piece->first) ++one;
  ALLOCMARK_ASSERT(one != end);
  free_.erase(one);
}

}  // namespace simcuda
