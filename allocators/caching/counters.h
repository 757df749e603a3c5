// The counters of torch.cuda.memory_stats(), with PyTorch's names and meanings. Written on
// every call, so they are plain adds; `freed` is not stored, because it follows from the others.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace allocmark::caching {

enum class PoolKind : std::uint8_t { Small, Large };

[[nodiscard]] constexpr std::int64_t signed_bytes(std::uint64_t bytes) {
  return static_cast<std::int64_t>(bytes);
}

class Stat {
 public:
  // Values that another allocator counted; only current and peak are known.
  [[nodiscard]] static Stat of(std::int64_t current, std::int64_t peak) {
    Stat stat;
    stat.current_ = stat.freed_base_ = current;
    stat.peak_ = peak;
    return stat;
  }

  void increase(std::int64_t amount) {
    current_ += amount;
    allocated_ += amount;
    raise_peak();
  }
  void decrease(std::int64_t amount) { current_ -= amount; }
  // One step of either sign, which no branch could foretell.
  void change(std::int64_t amount) {
    current_ += amount;
    allocated_ += std::max<std::int64_t>(amount, 0);
    raise_peak();
  }

  [[nodiscard]] std::int64_t current() const { return current_; }
  [[nodiscard]] std::int64_t peak() const { return peak_; }
  [[nodiscard]] std::int64_t allocated() const { return allocated_; }
  [[nodiscard]] std::int64_t freed() const { return allocated_ - current_ + freed_base_; }

 private:
  // Peaks are rare: a branch costs less than a store.
  void raise_peak() {
    if (current_ > peak_) [[unlikely]]
      peak_ = current_;
  }

  std::int64_t current_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t allocated_ = 0;   // sum of all increases
  std::int64_t freed_base_ = 0;  // what `current` was when `allocated` was set to 0
};

// One stat for all pools together and one for each kind.
class StatArray {
 public:
  void increase(PoolKind kind, std::int64_t amount) {
    all_.increase(amount);
    kinds_[static_cast<std::size_t>(kind)].increase(amount);
  }
  void decrease(PoolKind kind, std::int64_t amount) {
    all_.decrease(amount);
    kinds_[static_cast<std::size_t>(kind)].decrease(amount);
  }
  void change(PoolKind kind, std::int64_t amount) {
    all_.change(amount);
    kinds_[static_cast<std::size_t>(kind)].change(amount);
  }

  // For figures that are only known for all pools together.
  void show_all(const Stat& stat) { all_ = stat; }

  [[nodiscard]] const Stat& all() const { return all_; }
  [[nodiscard]] const Stat& of(PoolKind kind) const {
    return kinds_[static_cast<std::size_t>(kind)];
  }
  template <typename Action>
  void for_each(Action action) {
    action(all_);
    for (Stat& stat : kinds_) action(stat);
  }

 private:
  Stat all_;
  std::array<Stat, 2> kinds_;
};

struct Counters {
  StatArray allocation;       // blocks handed out and not asked back
  StatArray allocated_bytes;  // their bytes, as rounded
  StatArray active;           // allocation, plus blocks that wait for another stream
  StatArray active_bytes;
  StatArray requested_bytes;  // what the callers asked for, of active blocks
  StatArray segment;          // segments from cudaMalloc (none for expandable memory)
  StatArray reserved_bytes;   // taken from the device
  StatArray inactive_split;   // free blocks that are part of a segment
  StatArray inactive_split_bytes;
  Stat oversize_allocations;  // handed out with max_split_size or more
  Stat oversize_segments;
  std::int64_t max_split_size = -1;  // when the allocator was made; -1 is unlimited
  std::int64_t num_alloc_retries =
      0;  // device allocations repeated after giving the whole cache back
  std::int64_t num_device_alloc = 0;  // cudaMalloc successes and mappings
  std::int64_t num_device_free = 0;
  std::int64_t num_ooms = 0;
  std::int64_t num_sync_all_streams = 0;
  // Nothing where the release does not count them.
  std::optional<std::int64_t> num_oom_rejections{};
  // By pool id, also of pools that are gone; empty where the release does not count them.
  std::map<std::uint64_t, StatArray> reserved_bytes_by_private_pool{};
};

// name -> value, sorted by name, as memory_stats() shows them: 122 entries, one more since 2.12,
// and 12 for each private pool since 2.13.
[[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> flatten(const Counters& counters);

}  // namespace allocmark::caching
