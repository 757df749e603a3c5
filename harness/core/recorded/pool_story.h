// What private pools held while a history was replayed: when most of their memory was stranded,
// what is left at the end, and what went back to the device at once, as when a server sleeps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace allocmark {

// What a private pool of a graph or a MemPool held.
struct PoolHeld {
  std::uint32_t pool = 0;  // index into MemorySnapshot::pools; one beyond it has no name there
  std::uint64_t reserved_bytes = 0;
  std::uint64_t live_bytes = 0;  // of it in blocks that are held, or that a stream still uses

  [[nodiscard]] std::uint64_t stranded_bytes() const { return reserved_bytes - live_bytes; }
  friend bool operator==(const PoolHeld&, const PoolHeld&) = default;
};

// What the allocator held before an entry of the history.
struct PoolMoment {
  std::uint64_t entry_index = 0;
  std::uint64_t reserved_bytes = 0;  // of all pools, the common one, too
  std::uint64_t live_bytes = 0;
  std::vector<PoolHeld> pools{};  // private ones that have memory, the most stranded first

  [[nodiscard]] std::uint64_t stranded_bytes() const {
    std::uint64_t bytes = 0;
    for (const PoolHeld& held : pools) bytes += held.stranded_bytes();
    return bytes;
  }
};

// A call of empty_cache, or the end of a MemPool: what was held before and after it.
struct CacheReturn {
  PoolMoment before{};
  PoolMoment after{};

  [[nodiscard]] std::uint64_t bytes() const { return before.reserved_bytes - after.reserved_bytes; }
};

// All pools together at some time.
struct PoolSample {
  std::uint64_t entry_index = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t stranded_bytes = 0;
};

struct PoolStory {
  static constexpr std::size_t kReturnCountMax = 6;
  static constexpr std::uint64_t kSampleCountMax = 800;

  PoolMoment most_stranded{};
  PoolMoment end{};
  std::vector<CacheReturn> returns{};  // those that gave most back, in the history's order
  std::vector<PoolSample> samples{};   // as many entries apart, in order

  void add_return(CacheReturn one) {
    if (one.bytes() == 0) return;
    returns.push_back(std::move(one));
    if (returns.size() > kReturnCountMax)
      returns.erase(std::ranges::min_element(returns, {}, &CacheReturn::bytes));
  }
};

}  // namespace allocmark
