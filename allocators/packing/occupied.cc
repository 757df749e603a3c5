#include "allocators/packing/occupied.h"

#include <algorithm>
#include <bit>

namespace allocmark {

Occupied::Occupied(std::size_t section_count)
    : leaf_count_(std::bit_ceil(std::max<std::size_t>(section_count, 1))),
      anywhere_(2 * leaf_count_),
      always_(leaf_count_) {}

void Occupied::clear() {
  for (Ranges& ranges : anywhere_) ranges.clear();
  for (Ranges& ranges : always_) ranges.clear();
}

template <class Whole, class Part>
void Occupied::visit(SectionRange when, Whole whole, Part part) const {
  std::size_t low = leaf_count_ + when.begin, high = leaf_count_ + when.end;
  for (; low < high; low /= 2, high /= 2) {
    if (low % 2 == 1) whole(low++);
    if (high % 2 == 1) whole(--high);
  }
  // Every node that reaches beyond the sections lies above the first or the last of them.
  std::size_t width = 2;
  std::size_t first = (leaf_count_ + when.begin) / 2, last = (leaf_count_ + when.end - 1) / 2;
  const auto reaches_beyond = [&](std::size_t node) {
    const std::size_t begin = node * width - leaf_count_;
    return begin < when.begin || begin + width > when.end;
  };
  for (; first > 0; first /= 2, last /= 2, width *= 2) {
    if (reaches_beyond(first)) part(first);
    if (last != first && reaches_beyond(last)) part(last);
  }
}

std::uint64_t Occupied::lowest_free(SectionRange when, std::uint64_t size_bytes) {
  rests_.clear();
  const auto count_in = [this](const Ranges& ranges) {
    if (!ranges.empty()) rests_.push_back({ranges.data(), ranges.data() + ranges.size()});
  };
  visit(
      when, [&](std::size_t node) { count_in(anywhere_[node]); },
      [&](std::size_t node) { count_in(always_[node]); });
  std::uint64_t at = 0;
  // Until none of them has moved it since it stood where it is.
  for (std::size_t agreed_count = 0, i = 0; agreed_count < rests_.size(); ++agreed_count) {
    Rest& rest = rests_[i];
    i = i + 1 == rests_.size() ? 0 : i + 1;
    while (rest.next != rest.end && rest.next->begin < at + size_bytes) {
      if (rest.next->end > at) {
        at = rest.next->end;
        agreed_count = 0;
      }
      ++rest.next;
    }
  }
  return at;
}

void Occupied::take(SectionRange when, std::uint64_t offset, std::uint64_t size_bytes) {
  const Range range{offset, offset + size_bytes};
  visit(
      when,
      [&](std::size_t node) {
        add(anywhere_[node], range);
        if (node < leaf_count_) add(always_[node], range);
      },
      [&](std::size_t node) { add(anywhere_[node], range); });
}

void Occupied::add(Ranges& ranges, Range range) {
  const auto first = std::ranges::lower_bound(ranges, range.begin, {}, &Range::end);
  auto after = first;
  while (after != ranges.end() && after->begin <= range.end) {
    range.begin = std::min(range.begin, after->begin);
    range.end = std::max(range.end, after->end);
    ++after;
  }
  if (first == after) {
    ranges.insert(first, range);
    return;
  }
  *first = range;
  ranges.erase(first + 1, after);
}

}  // namespace allocmark
