#include "allocators/packing/first_fit.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <tuple>
#include <utility>

#include "allocators/packing/time_sections.h"

namespace allocmark {
namespace {

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

using Block = const BlockLife&;
using Pressure = std::uint64_t;  // bytes

}  // namespace

class OrderMaker {
 public:
  explicit OrderMaker(std::span<const BlockLife> blocks) : blocks_(blocks) {}

  // Greatest keys first; equal ones as they came.
  template <class Key>
  [[nodiscard]] PackOrder by(std::string_view name, Key key) const {
    std::vector<std::uint32_t> all(blocks_.size());
    std::iota(all.begin(), all.end(), 0U);
    std::ranges::stable_sort(all, std::greater<>{},
                             [&](std::uint32_t i) { return key_of(key, i); });
    return {.name = name, .blocks = std::move(all)};
  }
  template <class Key>
  [[nodiscard]] PackOrder by_pressure(std::string_view name, Key key) {
    if (pressures_.empty()) pressures_ = pressures(blocks_);
    return by(name, key);
  }

 private:
  template <class Key>
  [[nodiscard]] auto key_of(const Key& key, std::uint32_t i) const {
    if constexpr (requires(Block block) { key(block); }) {
      return key(blocks_[i]);
    } else {
      return key(blocks_[i], pressures_[i]);
    }
  }

  std::span<const BlockLife> blocks_;
  std::vector<std::uint64_t> pressures_;  // from the first order on that needs them
};

namespace {

using Rule = PackOrder (*)(OrderMaker&);

PackOrder by_begin(OrderMaker& maker) {
  return maker.by("begin", [](Block b) { return std::pair(~b.begin, b.size_bytes); });
}

constexpr std::array<Rule, 7> kPackRules = {
    [](OrderMaker& maker) {
      return maker.by("size", [](Block b) { return std::pair(b.size_bytes, lifetime(b)); });
    },
    [](OrderMaker& maker) {
      return maker.by("lifetime", [](Block b) { return std::pair(lifetime(b), b.size_bytes); });
    },
    [](OrderMaker& maker) { return maker.by("size times lifetime", area); },
    [](OrderMaker& maker) {
      return maker.by_pressure("pressure, then size", [](Block b, Pressure pressure) {
        return std::pair(pressure, b.size_bytes);
      });
    },
    [](OrderMaker& maker) {
      return maker.by_pressure("pressure, then lifetime", [](Block b, Pressure pressure) {
        return std::pair(pressure, lifetime(b));
      });
    },
    by_begin,
    [](OrderMaker& maker) {
      return maker.by("end", [](Block b) { return std::pair(b.end, b.size_bytes); });
    },
};

}  // namespace

PackOrders::PackOrders(std::span<const BlockLife> blocks)
    : maker_(std::make_unique<OrderMaker>(blocks)) {}
PackOrders::~PackOrders() = default;

std::optional<PackOrder> PackOrders::next() {
  if (made_count_ == kPackRules.size()) return std::nullopt;
  return kPackRules[made_count_++](*maker_);
}

std::vector<PackOrder> search_orders(std::span<const BlockLife> blocks) {
  OrderMaker maker(blocks);
  return {by_begin(maker),
          maker.by_pressure("lifetime, area, pressure",
                            [](Block b, Pressure pressure) {
                              return std::tuple(lifetime(b), area(b), pressure);
                            }),
          maker.by_pressure("pressure, area, lifetime",
                            [](Block b, Pressure pressure) {
                              return std::tuple(pressure, area(b), lifetime(b));
                            }),
          maker.by_pressure("pressure, lifetime, area", [](Block b, Pressure pressure) {
            return std::tuple(pressure, lifetime(b), area(b));
          })};
}

FirstFit::FirstFit(std::span<const BlockLife> blocks) : blocks_(blocks), occupied_(0) {
  const TimeSections sections(blocks);
  for (const BlockLife& block : blocks)
    sections_.push_back({sections.from(block.begin), sections.from(block.end)});
  occupied_ = Occupied(sections.count());
}

BlockPacking FirstFit::pack(std::span<const std::uint32_t> order,
                            std::uint64_t height_limit_bytes) {
  occupied_.clear();
  BlockPacking packing;
  packing.offsets.assign(blocks_.size(), 0);
  for (const std::uint32_t index : order) {
    const std::uint64_t size_bytes = blocks_[index].size_bytes;
    if (size_bytes == 0) continue;
    const std::uint64_t at = occupied_.lowest_free(sections_[index], size_bytes);
    packing.offsets[index] = at;
    packing.height_bytes = std::max(packing.height_bytes, at + size_bytes);
    if (packing.height_bytes > height_limit_bytes) return {.height_bytes = packing.height_bytes};
    occupied_.take(sections_[index], at, size_bytes);
  }
  return packing;
}

}  // namespace allocmark
