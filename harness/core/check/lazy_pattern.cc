// See lazy_pattern.h.
#include "harness/core/check/lazy_pattern.h"

#include <algorithm>

#include "harness/core/replay/block_pattern.h"

namespace allocmark {
namespace {

// Blocks up to this size are written whole: it costs no more.
constexpr std::uint64_t kSmallBytes = 512;

std::uint64_t round_down(std::uint64_t value, std::uint64_t to) { return value / to * to; }

}  // namespace

LazyPattern::LazyPattern(const SimcuApi& simcu) : simcu_(simcu) {
  simcu_.watch_touches(touched, this);
}

LazyPattern::~LazyPattern() { simcu_.watch_touches(nullptr, nullptr); }

// The simulator's view; asking for it tells ourselves, which is then ignored.
char* LazyPattern::view(const Block& block) {
  viewer_ = std::this_thread::get_id();
  void* const bytes = simcu_.view(reinterpret_cast<const void*>(block.address), block.size_bytes);
  viewer_ = std::thread::id();
  return static_cast<char*>(bytes);
}

// Of the words that every block gets - at its ends, in its middle, and where a page begins -
// those that begin in this part of it.
std::vector<PatternPart> LazyPattern::words_in(const Block& block, const PatternPart& range) {
  std::vector<PatternPart> parts;
  const auto add = [&](std::uint64_t offset) {
    if (offset < range.begin || offset >= range.end) return;
    parts.push_back({.begin = offset, .end = std::min(offset + kPatternBytes, block.size_bytes)});
  };
  if (block.size_bytes <= kSmallBytes) return {range};
  add(0);
  const std::uint64_t first = block.address + std::max<std::uint64_t>(range.begin, 1);
  for (std::uint64_t at = round_down(first + kPageBytes - 1, kPageBytes);
       at < block.address + range.end; at += kPageBytes) {
    add(at - block.address);
  }
  add(round_down(block.size_bytes / 2, kPatternBytes));
  add(round_down(block.size_bytes - kPatternBytes, kPatternBytes));
  add(round_down(block.size_bytes - 1, kPatternBytes));
  return parts;
}

// What of the block lies in the granule.
PatternPart LazyPattern::part_of(const Block& block, std::uint64_t granule) {
  const std::uint64_t begin = std::max(block.address, granule * kGranuleBytes);
  const std::uint64_t end =
      std::min(block.address + block.size_bytes, (granule + 1) * kGranuleBytes);
  return {.begin = begin - block.address, .end = end - block.address};
}

bool LazyPattern::write(const Block& block) {
  const std::lock_guard lock(mutex_);
  char* const bytes = view(block);
  if (bytes == nullptr) return false;
  for (const PatternPart& part : words_in(block, {.begin = 0, .end = block.size_bytes})) {
    fill_pattern(bytes + part.begin, part, block.event_index);
  }
  live_.insert_or_assign(block.address, Live{.block = block, .granules = {}});
  return true;
}

LazyPattern::Answer LazyPattern::check(const Block& block, PatternChange* change) {
  const std::lock_guard lock(mutex_);
  const char* const bytes = view(block);
  if (bytes == nullptr) return Answer::Unmapped;
  std::vector<PatternPart> parts = words_in(block, {.begin = 0, .end = block.size_bytes});
  if (const auto live = live_.find(block.address); live != live_.end()) {
    for (const std::uint64_t granule : live->second.granules) {
      parts.push_back(part_of(block, granule));
    }
  }
  for (const PatternPart& part : parts) {
    if (const auto found = find_change(bytes + part.begin, part, block.event_index)) {
      *change = *found;
      return Answer::Changed;
    }
  }
  return Answer::Unchanged;
}

void LazyPattern::forget(const Block& block) {
  const std::lock_guard lock(mutex_);
  live_.erase(block.address);
}

void LazyPattern::touched(const void* pointer, std::uint64_t size_bytes, void* context) {
  auto& self = *static_cast<LazyPattern*>(context);
  if (self.viewer_ == std::this_thread::get_id()) return;
  self.complete(reinterpret_cast<std::uintptr_t>(pointer), size_bytes);
}

void LazyPattern::complete(std::uint64_t address, std::uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  if (size_bytes == 0 || live_.empty()) return;
  auto at = live_.upper_bound(address);
  if (at != live_.begin()) --at;
  for (; at != live_.end() && at->first < address + size_bytes; ++at) {
    Live& live = at->second;
    const std::uint64_t begin = std::max(address, live.block.address);
    const std::uint64_t end =
        std::min(address + size_bytes, live.block.address + live.block.size_bytes);
    if (begin >= end) continue;
    char* const bytes = view(live.block);
    if (bytes == nullptr) continue;  // the check of the block will say so
    for (std::uint64_t granule = begin / kGranuleBytes; granule <= (end - 1) / kGranuleBytes;
         ++granule) {
      complete_granule(live, granule, bytes);
    }
  }
}

// Not where a word has changed already: that is to be found.
void LazyPattern::complete_granule(Live& live, std::uint64_t granule, char* bytes) {
  if (live.granules.contains(granule)) return;
  const PatternPart whole = part_of(live.block, granule);
  for (const PatternPart& part : words_in(live.block, whole)) {
    if (find_change(bytes + part.begin, part, live.block.event_index)) return;
  }
  fill_pattern(bytes + whole.begin, whole, live.block.event_index);
  live.granules.insert(granule);
}

}  // namespace allocmark
