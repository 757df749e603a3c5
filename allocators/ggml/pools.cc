#include "allocators/ggml/pools.h"

#include <algorithm>

#include "base/divided_up.h"

namespace allocmark::ggml {
namespace {

// A buffer that is larger by so much is not taken.
constexpr std::uint64_t kExcessBytesEnd = std::uint64_t{1} << 36;
constexpr double kLookAhead = 1.05;
constexpr std::uint64_t kLookAheadUnitBytes = 256;

}  // namespace

LegacyPool::~LegacyPool() {
  clear();
  for (const auto& [address, size_bytes] : used_) memory_.give(address);
}

// The first of those that exceed the size least.
Buffer* LegacyPool::best_of(std::uint64_t size_bytes) {
  Buffer* best = nullptr;
  std::uint64_t least_excess = kExcessBytesEnd;
  for (Buffer& buffer : kept_) {
    if (buffer.address == 0 || buffer.size_bytes < size_bytes) continue;
    const std::uint64_t excess = buffer.size_bytes - size_bytes;
    if (excess >= least_excess) continue;
    least_excess = excess;
    best = &buffer;
    if (excess == 0) break;
  }
  return best;
}

std::optional<Buffer> LegacyPool::allocate(std::uint64_t size_bytes) {
  Buffer buffer;
  if (Buffer* const kept = best_of(size_bytes)) {
    buffer = *kept;
    *kept = {};
  } else {
    buffer.size_bytes =
        rounded_up(static_cast<std::uint64_t>(kLookAhead * static_cast<double>(size_bytes)),
                   kLookAheadUnitBytes);
    std::optional<std::uint64_t> address = memory_.take(buffer.size_bytes);
    if (!address && flushes_) {
      memory_.synchronize();
      clear();
      ++counters_.retry_count;
      address = memory_.take(buffer.size_bytes);
    }
    if (!address) return std::nullopt;
    buffer.address = *address;
    counters_.held_bytes += buffer.size_bytes;
    ++counters_.take_count;
  }
  used_[buffer.address] = buffer.size_bytes;
  counters_.used_bytes += buffer.size_bytes;
  return buffer;
}

bool LegacyPool::deallocate(std::uint64_t address) {
  const auto found = used_.find(address);
  if (found == used_.end()) return false;
  const Buffer buffer{.address = address, .size_bytes = found->second};
  used_.erase(found);
  counters_.used_bytes -= buffer.size_bytes;
  const auto room = std::ranges::find(kept_, std::uint64_t{0}, &Buffer::address);
  if (room != kept_.end()) {
    *room = buffer;
    return true;
  }
  memory_.give(address);
  counters_.held_bytes -= buffer.size_bytes;
  ++counters_.give_count;
  return true;
}

void LegacyPool::clear() {
  for (Buffer& buffer : kept_) {
    if (buffer.address == 0) continue;
    memory_.give(buffer.address);
    counters_.held_bytes -= buffer.size_bytes;
    ++counters_.give_count;
    buffer = {};
  }
}

std::uint64_t LegacyPool::kept_bytes_largest() const {
  return std::ranges::max(kept_, {}, &Buffer::size_bytes).size_bytes;
}

std::vector<LegacyPool::Held> LegacyPool::held() const {
  std::vector<Held> all;
  for (const Buffer& buffer : kept_) {
    if (buffer.address != 0) all.push_back({.buffer = buffer});
  }
  for (const auto& [address, size_bytes] : used_)
    all.push_back({.buffer = {.address = address, .size_bytes = size_bytes}, .used = true});
  std::ranges::sort(all, {}, [](const Held& one) { return one.buffer.address; });
  return all;
}

}  // namespace allocmark::ggml
