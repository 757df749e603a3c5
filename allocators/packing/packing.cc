#include "allocators/packing/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "allocators/packing/exact_packing.h"
#include "allocators/packing/first_fit.h"

namespace allocmark {

std::uint64_t peak_bytes(std::span<const BlockLife> blocks) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> came, went;  // when, bytes
  for (const BlockLife& block : blocks) {
    came.emplace_back(block.begin, block.size_bytes);
    went.emplace_back(block.end, block.size_bytes);
  }
  std::ranges::sort(came);
  std::ranges::sort(went);
  std::uint64_t live = 0, peak = 0;
  std::size_t gone_count = 0;
  for (const auto& [time, size_bytes] : came) {
    for (; gone_count < went.size() && went[gone_count].first <= time; ++gone_count)
      live -= went[gone_count].second;
    live += size_bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

namespace {

// At most.
std::uint64_t comparisons_of_first_fit(std::size_t block_count) {
  return block_count * block_count / 2 + 1;
}

// What stands at the top goes first in the next order.
void improve(std::span<const BlockLife> blocks, std::vector<std::uint32_t> order,
             std::uint64_t comparisons, BlockPacking* best) {
  std::uint64_t seed = 1;
  const auto random = [&] {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
  };
  FirstFit first_fit(blocks);
  BlockPacking current = first_fit.pack(order);
  const std::uint64_t tries = comparisons / comparisons_of_first_fit(blocks.size());
  for (std::uint64_t i = 0; i < tries && best->height_bytes > best->bound_bytes; ++i) {
    std::vector<std::uint32_t> changed = order;
    std::vector<std::size_t> tops;
    for (std::size_t at = 0; at < changed.size(); ++at) {
      const std::uint32_t block = changed[at];
      if (current.offsets[block] + blocks[block].size_bytes == current.height_bytes)
        tops.push_back(at);
    }
    if (tops.empty()) return;
    const std::size_t top = tops[random() % tops.size()];
    const std::size_t to = top == 0 ? random() % changed.size() : random() % top;
    const std::uint32_t block = changed[top];
    changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(top));
    changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(to), block);
    const BlockPacking packing = first_fit.pack(changed, current.height_bytes);
    if (packing.offsets.empty() || packing.height_bytes > current.height_bytes) continue;
    current = packing;
    order = std::move(changed);
    if (packing.height_bytes >= best->height_bytes) continue;
    best->offsets = packing.offsets;
    best->height_bytes = packing.height_bytes;
    best->found_by = "first fit, improved";
  }
}

// The least height that a search finds, between the bound and what is known.
void search_heights(std::span<const BlockLife> blocks, std::uint64_t nodes, BlockPacking* best) {
  std::uint64_t low = best->bound_bytes;  // no packing is known to be impossible from here on
  bool all_answered = true;
  while (nodes > 0 && low < best->height_bytes) {
    // The bound itself first: most programs meet it.
    const std::uint64_t wanted =
        low == best->bound_bytes ? low : low + (best->height_bytes - 1 - low) / 2;
    ExactPacking found = search_packing(blocks, wanted, std::max<std::uint64_t>(nodes / 2, 1));
    nodes -= std::min(nodes, std::max<std::uint64_t>(found.nodes_used, 1));
    if (found.answer != PackAnswer::Found) {
      all_answered &= found.answer == PackAnswer::None;
      low = wanted + 1;
      continue;
    }
    best->offsets = std::move(found.offsets);
    best->height_bytes = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      best->height_bytes = std::max(best->height_bytes, best->offsets[i] + blocks[i].size_bytes);
    }
    best->found_by = "exact search";
  }
  best->is_best |= all_answered && low >= best->height_bytes;
}

// The lowest of first fits in orders, at most so many; `best_order` gets its order.
BlockPacking first_fits(std::span<const BlockLife> blocks, std::uint64_t count_max,
                        std::vector<std::uint32_t>* best_order) {
  BlockPacking best;
  best.height_bytes = ~std::uint64_t{0};
  best.bound_bytes = peak_bytes(blocks);
  FirstFit first_fit(blocks);
  PackOrders orders(blocks);
  for (std::uint64_t i = 0; i < count_max; ++i) {
    std::optional<PackOrder> order = orders.next();
    if (!order) break;
    BlockPacking packing = first_fit.pack(order->blocks, best.height_bytes - 1);
    if (packing.height_bytes >= best.height_bytes) continue;
    best.offsets = std::move(packing.offsets);
    best.height_bytes = packing.height_bytes;
    best.found_by = fmt::format("first fit by {}", order->name);
    *best_order = std::move(order->blocks);
    if (best.height_bytes == best.bound_bytes) break;
  }
  best.is_best = best.height_bytes == best.bound_bytes;
  return best;
}

}  // namespace

BlockPacking pack_quickly(std::span<const BlockLife> blocks, std::uint64_t comparisons) {
  const std::uint64_t count_max = comparisons / comparisons_of_first_fit(blocks.size());
  std::vector<std::uint32_t> order;
  return first_fits(blocks, std::max<std::uint64_t>(count_max, 1), &order);
}

BlockPacking pack_blocks(std::span<const BlockLife> blocks, const PackEffort& effort) {
  std::vector<std::uint32_t> best_order;
  BlockPacking best = first_fits(blocks, ~std::uint64_t{0}, &best_order);
  if (best.height_bytes > best.bound_bytes && blocks.size() <= effort.exact_blocks_max)
    search_heights(blocks, effort.nodes, &best);
  if (best.height_bytes > best.bound_bytes && !best.is_best)
    improve(blocks, best_order, effort.comparisons, &best);
  best.is_best |= best.height_bytes == best.bound_bytes;
  return best;
}

std::string fault_of(std::span<const BlockLife> blocks, const BlockPacking& packing) {
  if (packing.offsets.size() != blocks.size())
    return fmt::format("{} offsets for {} blocks", packing.offsets.size(), blocks.size());
  // Ends before begins at one time.
  std::vector<std::pair<std::pair<std::uint64_t, bool>, std::size_t>> moments;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].size_bytes == 0) continue;
    if (packing.offsets[i] + blocks[i].size_bytes > packing.height_bytes)
      return fmt::format("block {} ends above the height", i);
    moments.push_back({{blocks[i].begin, true}, i});
    moments.push_back({{blocks[i].end, false}, i});
  }
  std::ranges::sort(moments);
  std::map<std::uint64_t, std::size_t> live;  // by offset
  for (const auto& [moment, i] : moments) {
    if (!moment.second) {
      live.erase(packing.offsets[i]);
      continue;
    }
    const auto above = live.lower_bound(packing.offsets[i]);
    if (above != live.end() && above->first < packing.offsets[i] + blocks[i].size_bytes)
      return fmt::format("blocks {} and {} share bytes", i, above->second);
    if (above != live.begin()) {
      const auto [offset, below] = *std::prev(above);
      if (offset + blocks[below].size_bytes > packing.offsets[i])
        return fmt::format("blocks {} and {} share bytes", below, i);
    }
    live.emplace(packing.offsets[i], i);
  }
  return {};
}

}  // namespace allocmark
