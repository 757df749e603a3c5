#include "allocators/packing/exact_packing.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "allocators/packing/first_fit.h"
#include "allocators/packing/time_sections.h"

namespace allocmark {
namespace {

// A node looks at every block of its part, so that one of many counts for several.
constexpr std::size_t kNodeBlocks = 512;

std::uint64_t cost_of_node(std::size_t block_count) {
  return 1 + block_count * block_count / (kNodeBlocks * kNodeBlocks);
}

constexpr std::uint64_t kNowhere = std::numeric_limits<std::uint64_t>::max();

// Blocks of one part of time that meet no others, by rank: which of two is tried first.
struct Part {
  std::vector<std::uint32_t> blocks;
  std::vector<std::uint32_t> by_time;  // the same, by their begins
  std::uint32_t first_section = 0;
  std::uint32_t end_section = 0;
};

// Where the search stands: the next block lies here or above.
struct Front {
  std::uint64_t offset = 0;
  std::uint32_t rank = 0;
};

class PackingSearch {
 public:
  PackingSearch(std::span<const BlockLife> blocks, std::uint64_t height_bytes)
      : blocks_(blocks),
        height_bytes_(height_bytes),
        offset_(blocks.size(), kNowhere),
        lowest_(blocks.size(), 0),
        met_(blocks.size()) {
    find_sections();
    find_meetings();
  }

  // Ranks by this order.
  [[nodiscard]] PackAnswer run(std::span<const std::uint32_t> order, std::uint64_t nodes_max) {
    nodes_left_ = nodes_max;
    Part whole;
    for (const std::uint32_t block : order) {
      if (blocks_[block].size_bytes != 0) whole.blocks.push_back(block);
    }
    whole.by_time = whole.blocks;
    std::ranges::sort(whole.by_time, {}, [&](std::uint32_t i) { return first_section_[i]; });
    whole.end_section = static_cast<std::uint32_t>(floor_.size());
    found_.assign(blocks_.size(), 0);
    return search_rest(whole, {});
  }
  [[nodiscard]] std::vector<std::uint64_t> take_offsets() { return std::move(found_); }
  [[nodiscard]] std::uint64_t nodes_left() const { return nodes_left_; }

 private:
  void find_sections();
  void find_meetings();
  [[nodiscard]] PackAnswer search_rest(const Part& part, Front front);
  [[nodiscard]] PackAnswer search(const Part& part, Front front);
  struct Next {
    std::uint64_t offset;
    std::uint32_t rank;
  };
  // Whether each section has room for what is still to be placed in it; `next` is by offset.
  [[nodiscard]] bool has_room(const Part& part, std::span<const Next> next, std::uint64_t offset);
  // Puts the block at its lowest offset.
  void place(std::uint32_t block);
  void take_back(std::uint32_t block, std::size_t trail_size);
  void set(std::uint64_t& place, std::uint64_t value) {
    trail_.emplace_back(&place, place);
    place = value;
  }

  std::span<const BlockLife> blocks_;
  const std::uint64_t height_bytes_;
  std::uint64_t nodes_left_ = 0;
  std::vector<std::uint64_t> offset_;  // kNowhere: not placed
  std::vector<std::uint64_t> lowest_;  // offset that those below leave
  std::vector<std::uint64_t> found_;   // of parts that are solved
  std::vector<std::vector<std::uint32_t>> met_;
  // What is still to be placed in a section lies above its floor.
  std::vector<std::uint32_t> first_section_, end_section_;  // by block
  std::vector<std::uint64_t> floor_;
  std::vector<std::uint64_t> rest_bytes_;
  std::vector<std::uint32_t> later_;  // in has_room: a section from here on that was not seen yet
  std::vector<std::pair<std::uint64_t*, std::uint64_t>> trail_;  // values before changes
};

void PackingSearch::find_sections() {
  const TimeSections sections(blocks_);
  floor_.assign(sections.count(), 0);
  rest_bytes_.assign(sections.count(), 0);
  for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
    first_section_.push_back(sections.from(blocks_[i].begin));
    end_section_.push_back(sections.from(blocks_[i].end));
    for (std::uint32_t s = first_section_[i]; s < end_section_[i]; ++s) {
      rest_bytes_[s] += blocks_[i].size_bytes;
    }
  }
}

void PackingSearch::find_meetings() {
  for (std::uint32_t a = 0; a < blocks_.size(); ++a) {
    for (std::uint32_t b = 0; b < a; ++b) {
      if (blocks_[a].begin >= blocks_[b].end || blocks_[b].begin >= blocks_[a].end) continue;
      met_[a].push_back(b);
      met_[b].push_back(a);
    }
  }
}

// Nothing of a section lies below the lowest block that is still to come there.
bool PackingSearch::has_room(const Part& part, std::span<const Next> next, std::uint64_t offset) {
  later_.resize(floor_.size() + 1);
  std::iota(later_.begin() + part.first_section, later_.begin() + part.end_section + 1,
            part.first_section);
  const auto unseen = [&](std::uint32_t section) {
    while (later_[section] != section) {
      later_[section] = later_[later_[section]];
      section = later_[section];
    }
    return section;
  };
  for (const Next& one : next) {
    const std::uint32_t block = part.blocks[one.rank];
    const std::uint64_t lowest = std::max(one.offset, offset);
    for (std::uint32_t s = unseen(first_section_[block]); s < end_section_[block]; s = unseen(s)) {
      if (std::max(floor_[s], lowest) + rest_bytes_[s] > height_bytes_) return false;
      later_[s] = s + 1;
    }
  }
  return true;
}

void PackingSearch::place(std::uint32_t block) {
  const std::uint64_t top = lowest_[block] + blocks_[block].size_bytes;
  offset_[block] = lowest_[block];
  for (const std::uint32_t other : met_[block]) {
    if (offset_[other] == kNowhere && lowest_[other] < top) set(lowest_[other], top);
  }
  for (std::uint32_t s = first_section_[block]; s < end_section_[block]; ++s) {
    set(rest_bytes_[s], rest_bytes_[s] - blocks_[block].size_bytes);
    set(floor_[s], top);
  }
}

void PackingSearch::take_back(std::uint32_t block, std::size_t trail_size) {
  while (trail_.size() > trail_size) {
    *trail_.back().first = trail_.back().second;
    trail_.pop_back();
  }
  offset_[block] = kNowhere;
}

// Times that no block joins to each other are searched one by one.
PackAnswer PackingSearch::search_rest(const Part& part, Front front) {
  std::vector<std::uint32_t> ends;  // of times, as sections
  for (const std::uint32_t block : part.by_time) {
    if (offset_[block] != kNowhere) continue;
    if (!ends.empty() && first_section_[block] < ends.back()) {
      ends.back() = std::max(ends.back(), end_section_[block]);
    } else {
      ends.push_back(end_section_[block]);
    }
  }
  if (ends.size() <= 1) return search(part, front);
  std::vector<Part> parts(ends.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].first_section = i == 0 ? part.first_section : ends[i - 1];
    parts[i].end_section = ends[i];
  }
  const auto part_of = [&](std::uint32_t block) -> Part& {
    const auto at = std::ranges::upper_bound(ends, first_section_[block]);
    return parts[static_cast<std::size_t>(at - ends.begin())];
  };
  for (const std::uint32_t block : part.blocks) {
    if (offset_[block] == kNowhere) part_of(block).blocks.push_back(block);
  }
  for (const std::uint32_t block : part.by_time) {
    if (offset_[block] == kNowhere) part_of(block).by_time.push_back(block);
  }
  for (const Part& one : parts) {
    const PackAnswer answer = search(one, {});
    if (answer != PackAnswer::Found) return answer;
  }
  return PackAnswer::Found;
}

PackAnswer PackingSearch::search(const Part& part, Front front) {
  if (nodes_left_ == 0) return PackAnswer::Unknown;
  nodes_left_ -= std::min(nodes_left_, cost_of_node(part.blocks.size()));
  std::vector<Next> next;
  std::uint64_t lowest_top = kNowhere;
  for (std::uint32_t rank = 0; rank < part.blocks.size(); ++rank) {
    const std::uint32_t block = part.blocks[rank];
    if (offset_[block] != kNowhere) continue;
    next.push_back({lowest_[block], rank});
    lowest_top = std::min(lowest_top, lowest_[block] + blocks_[block].size_bytes);
  }
  if (next.empty()) return PackAnswer::Found;
  std::ranges::sort(next, [](const Next& a, const Next& b) {
    return std::pair(a.offset, a.rank) < std::pair(b.offset, b.rank);
  });
  if (!has_room(part, next, front.offset)) return PackAnswer::None;
  for (const Next& one : next) {
    // Some other block would go wholly below it.
    if (one.offset >= lowest_top) break;
    if (std::pair(one.offset, one.rank) < std::pair(front.offset, front.rank)) continue;
    const std::uint32_t block = part.blocks[one.rank];
    const std::size_t trail_size = trail_.size();
    place(block);
    found_[block] = one.offset;
    const bool joins = std::ranges::any_of(
        met_[block], [&](std::uint32_t other) { return offset_[other] == kNowhere; });
    const PackAnswer answer = search_rest(part, {one.offset, one.rank});
    take_back(block, trail_size);
    if (answer != PackAnswer::None) return answer;
    // With nothing left beside it, its place decides nothing.
    if (!joins) break;
  }
  return PackAnswer::None;
}

}  // namespace

ExactPacking search_packing(std::span<const BlockLife> blocks, std::uint64_t height_bytes,
                            std::uint64_t nodes_max) {
  ExactPacking result;
  PackingSearch search(blocks, height_bytes);
  const std::vector<PackOrder> orders = search_orders(blocks);
  // An order that is good finds a packing soon: each gets few nodes first, then more.
  const std::uint64_t descent = (2 * blocks.size() + 1) * cost_of_node(blocks.size());
  for (std::uint64_t share = descent; result.nodes_used < nodes_max; share *= 2) {
    for (const PackOrder& order : orders) {
      const std::uint64_t nodes = std::min(share, nodes_max - result.nodes_used);
      result.answer = search.run(order.blocks, nodes);
      result.nodes_used += nodes - search.nodes_left();
      if (result.answer == PackAnswer::Found) result.offsets = search.take_offsets();
      if (result.answer != PackAnswer::Unknown) return result;
    }
  }
  return result;
}

}  // namespace allocmark
