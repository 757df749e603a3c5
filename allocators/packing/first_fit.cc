#include "allocators/packing/first_fit.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <utility>

#include "allocators/packing/time_sections.h"

namespace allocmark {
namespace {

struct Placed {
  std::uint64_t offset = 0;
  std::uint64_t end_offset = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::uint64_t lifetime(const BlockLife& block) { return block.end - block.begin; }
long double area(const BlockLife& block) {
  return static_cast<long double>(block.size_bytes) * static_cast<long double>(lifetime(block));
}

// Of each block, the most bytes live at once while it lives.
std::vector<std::uint64_t> pressures(std::span<const BlockLife> blocks) {
  const TimeSections sections(blocks);
  std::vector<std::uint64_t> live(sections.count() + 1);
  for (const BlockLife& block : blocks) {
    live[sections.from(block.begin)] += block.size_bytes;
    live[sections.from(block.end)] -= block.size_bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  // Highest values of ranges, by doubling.
  std::vector<std::vector<std::uint64_t>> highest{live};
  for (std::size_t width = 1; 2 * width <= live.size(); width *= 2) {
    const std::vector<std::uint64_t>& half = highest.back();
    std::vector<std::uint64_t> whole(half.size() - width);
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = std::max(half[i], half[i + width]);
    highest.push_back(std::move(whole));
  }
  std::vector<std::uint64_t> result;
  for (const BlockLife& block : blocks) {
    const std::size_t lo = sections.from(block.begin), hi = sections.from(block.end);
    std::size_t level = 0;
    while ((std::size_t{2} << level) <= hi - lo) ++level;
    result.push_back(std::max(highest[level][lo], highest[level][hi - (std::size_t{1} << level)]));
  }
  return result;
}

// Greatest keys first; equal ones as they came.
class Orders {
 public:
  explicit Orders(std::span<const BlockLife> blocks)
      : blocks_(blocks), pressure_(pressures(blocks)), all_(blocks.size()) {
    std::iota(all_.begin(), all_.end(), 0U);
  }
  template <class Key>
  void add(std::string_view name, Key key) {
    PackOrder order{name, all_};
    std::ranges::stable_sort(order.blocks, std::greater<>{},
                             [&](std::uint32_t i) { return key(blocks_[i], pressure_[i]); });
    orders_.push_back(std::move(order));
  }
  [[nodiscard]] std::vector<PackOrder> take() { return std::move(orders_); }

 private:
  std::span<const BlockLife> blocks_;
  std::vector<std::uint64_t> pressure_;
  std::vector<std::uint32_t> all_;
  std::vector<PackOrder> orders_;
};

using Block = const BlockLife&;
using Pressure = std::uint64_t;  // bytes

void add_by_begin(Orders& orders) {
  orders.add("begin", [](Block b, Pressure) { return std::pair(~b.begin, b.size_bytes); });
}

}  // namespace

std::vector<PackOrder> pack_orders(std::span<const BlockLife> blocks) {
  Orders orders(blocks);
  orders.add("size", [](Block b, Pressure) { return std::pair(b.size_bytes, lifetime(b)); });
  orders.add("lifetime", [](Block b, Pressure) { return std::pair(lifetime(b), b.size_bytes); });
  orders.add("size times lifetime", [](Block b, Pressure) { return area(b); });
  orders.add("pressure, then size",
             [](Block b, Pressure pressure) { return std::pair(pressure, b.size_bytes); });
  orders.add("pressure, then lifetime",
             [](Block b, Pressure pressure) { return std::pair(pressure, lifetime(b)); });
  add_by_begin(orders);
  orders.add("end", [](Block b, Pressure) { return std::pair(b.end, b.size_bytes); });
  return orders.take();
}

std::vector<PackOrder> search_orders(std::span<const BlockLife> blocks) {
  Orders orders(blocks);
  add_by_begin(orders);
  orders.add("lifetime, area, pressure",
             [](Block b, Pressure pressure) { return std::tuple(lifetime(b), area(b), pressure); });
  orders.add("pressure, area, lifetime",
             [](Block b, Pressure pressure) { return std::tuple(pressure, area(b), lifetime(b)); });
  orders.add("pressure, lifetime, area",
             [](Block b, Pressure pressure) { return std::tuple(pressure, lifetime(b), area(b)); });
  return orders.take();
}

BlockPacking first_fit(std::span<const BlockLife> blocks, std::span<const std::uint32_t> order,
                       std::uint64_t height_limit_bytes) {
  BlockPacking packing;
  packing.offsets.assign(blocks.size(), 0);
  std::vector<Placed> placed;  // by offset
  placed.reserve(order.size());
  for (const std::uint32_t index : order) {
    const BlockLife& block = blocks[index];
    if (block.size_bytes == 0) continue;
    std::uint64_t at = 0;
    for (const Placed& other : placed) {
      if (other.offset >= at + block.size_bytes) break;
      if (other.begin < block.end && block.begin < other.end) at = std::max(at, other.end_offset);
    }
    packing.offsets[index] = at;
    packing.height_bytes = std::max(packing.height_bytes, at + block.size_bytes);
    if (packing.height_bytes > height_limit_bytes) return {.height_bytes = packing.height_bytes};
    const Placed one{at, at + block.size_bytes, block.begin, block.end};
    placed.insert(std::ranges::upper_bound(placed, at, {}, &Placed::offset), one);
  }
  return packing;
}

}  // namespace allocmark
