// See driver_blocks.h.
#include "harness/core/pinned/driver_blocks.h"

#include <iterator>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/divided_up.h"

namespace allocmark {
namespace {

using host_caching::Address;
using host_caching::PinKind;

constexpr std::uint64_t kSlabBytes = 2 * kMiB;
constexpr std::uint64_t kShortStepBytes = 512;
constexpr std::uint64_t kLongStepBytes = 4 * kKiB;

}  // namespace

Address DriverBlocks::allocate(std::uint64_t size_bytes) {
  if (size_bytes > kSlabBytes) {
    const std::uint64_t taken_bytes = rounded_up(size_bytes, kLongStepBytes);
    const Address address = host_.pin(taken_bytes, PinKind::HostAlloc, 1);
    if (address != 0) pieces_[address] = {.size_bytes = taken_bytes};
    return address;
  }
  const std::uint64_t taken_bytes = rounded_up(size_bytes, kShortStepBytes);
  auto fit = free_.lower_bound(taken_bytes);
  if (fit == free_.end()) {
    const Address slab = host_.pin(kSlabBytes, PinKind::HostAlloc, 1);
    if (slab == 0) return 0;
    pieces_[slab] = {.size_bytes = kSlabBytes, .slab = slab, .is_free = true};
    fit = free_.emplace(kSlabBytes, slab);
  }
  const Address address = fit->second;
  free_.erase(fit);
  Piece& piece = pieces_.at(address);
  const std::uint64_t rest_bytes = piece.size_bytes - taken_bytes;
  piece.size_bytes = taken_bytes;
  piece.is_free = false;
  if (rest_bytes > 0) {
    pieces_[address + taken_bytes] = {
        .size_bytes = rest_bytes, .slab = piece.slab, .is_free = true};
    free_.emplace(rest_bytes, address + taken_bytes);
  }
  return address;
}

void DriverBlocks::free(Address address) {
  auto piece = pieces_.find(address);
  ALLOCMARK_ASSERT(piece != pieces_.end() && !piece->second.is_free);
  const Address slab = piece->second.slab;
  if (slab == 0) {
    pieces_.erase(piece);
    return host_.unpin(address, PinKind::HostAlloc);
  }
  piece->second.is_free = true;
  free_.emplace(piece->second.size_bytes, address);
  join(piece);
  const bool has_before = piece != pieces_.begin() && address != slab;
  if (has_before) {
    piece = std::prev(piece);
    if (piece->second.is_free) join(piece);
  }
  const auto first = pieces_.find(slab);
  if (!first->second.is_free || first->second.size_bytes != kSlabBytes) return;
  forget_free(first);
  pieces_.erase(first);
  host_.unpin(slab, PinKind::HostAlloc);
}

void DriverBlocks::join(Pieces::iterator piece) {
  const auto behind = std::next(piece);
  const bool joins = behind != pieces_.end() && behind->second.is_free &&
                     behind->second.slab == piece->second.slab;
  if (!joins) return;
  forget_free(piece);
  forget_free(behind);
  piece->second.size_bytes += behind->second.size_bytes;
  pieces_.erase(behind);
  free_.emplace(piece->second.size_bytes, piece->first);
}

void DriverBlocks::forget_free(Pieces::iterator piece) {
  auto [one, end] = free_.equal_range(piece->second.size_bytes);
  while (one != end && one->second != piece->first) ++one;
  ALLOCMARK_ASSERT(one != end);
  free_.erase(one);
}

}  // namespace allocmark
