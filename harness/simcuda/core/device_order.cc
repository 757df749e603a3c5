// The part of Device that the order check sees: blocks by their place in memory, and what the
// driver does with the memory of its pools.
#include <algorithm>

#include "harness/simcuda/core/device.h"

namespace simcuda {
namespace {

// Places of mapped memory lie above all addresses: handle and offset in one number. A handle has at
// most 2^42 bytes.
constexpr std::uint64_t kHandlePlaces = std::uint64_t{1} << 63;
constexpr unsigned kOffsetBits = 42;

}  // namespace

void Device::begin_order_check() {
  check_ = std::make_unique<OrderCheck>();
  streams_.follow(&check_->order);
}

void Device::end_order_check() {
  streams_.follow(nullptr);
  check_.reset();
}

std::vector<order::Piece> Device::pieces_of(Range block) const {
  std::vector<order::Piece> pieces;
  for (std::uint64_t at = block.lo; at < block.hi;) {
    const Mapping mapping = virtual_memory_.find(at);
    if (mapping.handle == 0) {
      pieces.push_back({.lo = at, .hi = block.hi});
      break;
    }
    const std::uint64_t end = std::min(block.hi, mapping.range.hi);
    const std::uint64_t lo = (kHandlePlaces | (mapping.handle << kOffsetBits)) +
                             mapping.offset_bytes + (at - mapping.range.lo);
    pieces.push_back({.lo = lo, .hi = lo + (end - at)});
    at = end;
  }
  return pieces;
}

std::optional<order::UnorderedUse> Device::take_memory(Range block, order::Owner owner,
                                                       StreamId stream) {
  if (!check_) return std::nullopt;
  return check_->uses.take(pieces_of(block), owner, stream);
}

void Device::give_memory_back(Range block, order::Owner owner, std::span<const StreamId> streams) {
  if (check_) check_->uses.give_back(pieces_of(block), owner, streams);
}

void Device::note_pool_took(std::uint64_t address, const MemoryPool& pool,
                            std::optional<StreamId> stream) {
  if (!check_) return;
  const Range block = pool.find(address);
  if (block.empty() || block.lo != address) return;
  // The unit that the pool rounds to belongs to nobody else.
  const order::Piece piece{.lo = block.lo,
                           .hi = block.lo + round_up(block.size_bytes(), kUnitBytes)};
  if (stream) {
    check_->order.begin(*stream);
    check_->uses.pool_took(piece, *stream);
  } else {
    check_->uses.pool_took_now(piece);
  }
}

void Device::note_host_saw_device() {
  if (!check_) return;
  check_->order.host_saw_device();
  check_->uses.forget_all();
}

}  // namespace simcuda
