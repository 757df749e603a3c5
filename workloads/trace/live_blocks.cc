#include "workloads/trace/live_blocks.h"

#include <bit>

namespace allocmark {
namespace {

constexpr std::size_t kSlotCountMin = 256;

}  // namespace

const TracedBlock* LiveBlocks::find(std::uint64_t id) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = home(id); slots_[i].id != kNoId; i = (i + 1) & mask) {
    if (slots_[i].id == id) return &slots_[i];
  }
  return nullptr;
}

void LiveBlocks::insert(const TracedBlock& block) {
  if (2 * (count_ + 1) > slots_.size()) resize(2 * slots_.size());
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = home(block.id);
  while (slots_[i].id != kNoId) i = (i + 1) & mask;
  slots_[i] = block;
  ++count_;
}

bool LiveBlocks::erase(std::uint64_t id) {
  const TracedBlock* found = find(id);
  if (found == nullptr || id == kNoId) return false;
  const std::size_t mask = slots_.size() - 1;
  std::size_t hole = static_cast<std::size_t>(found - slots_.data());
  // Blocks after the hole move back where their home allows, so that no tombstones are needed.
  for (std::size_t i = (hole + 1) & mask; slots_[i].id != kNoId; i = (i + 1) & mask) {
    const std::size_t distance_home = (i - home(slots_[i].id)) & mask;
    const std::size_t distance_hole = (i - hole) & mask;
    if (distance_home < distance_hole) continue;
    slots_[hole] = slots_[i];
    hole = i;
  }
  slots_[hole].id = kNoId;
  --count_;
  return true;
}

void LiveBlocks::clear() {
  count_ = 0;
  slots_.clear();
  resize(kSlotCountMin);
}

void LiveBlocks::resize(std::size_t slot_count) {
  std::vector<TracedBlock> old(slot_count, TracedBlock{.id = kNoId, .size_bytes = 0, .birth = 0});
  old.swap(slots_);
  shift_ = 64 - std::countr_zero(slot_count);
  count_ = 0;
  for (const TracedBlock& block : old) {
    if (block.id != kNoId) insert(block);
  }
}

}  // namespace allocmark
