#include "allocators/planned/space.h"

#include <algorithm>
#include <iterator>

namespace allocmark::planned {

void Space::note(const ByteRange& range) {
  taken_[range.begin] = range.end;
  taken_bytes_ += range.end - range.begin;
}

bool Space::take(const ByteRange& range) {
  const auto next = taken_.lower_bound(range.begin);
  if (next != taken_.end() && next->first < range.end) return false;
  if (next != taken_.begin() && std::prev(next)->second > range.begin) return false;
  note(range);
  return true;
}

std::optional<std::uint64_t> Space::take_hole(std::uint64_t size_bytes, const ByteRange& within,
                                              std::span<const ByteRange> avoided) {
  auto used = taken_.lower_bound(within.begin);
  auto needed = avoided.begin();
  std::uint64_t begin = within.begin;
  // Whichever comes first ends the hole.
  while (begin + size_bytes <= within.end) {
    while (used != taken_.end() && used->second <= begin) ++used;
    while (needed != avoided.end() && needed->end <= begin) ++needed;
    const std::uint64_t used_begin = used == taken_.end() ? within.end : used->first;
    const std::uint64_t needed_begin = needed == avoided.end() ? within.end : needed->begin;
    if (begin + size_bytes <= std::min(used_begin, needed_begin)) {
      note({.begin = begin, .end = begin + size_bytes});
      return begin;
    }
    const bool is_used = used_begin <= needed_begin;
    if (is_used && used == taken_.end()) return std::nullopt;
    begin = is_used ? used->second : needed->end;
  }
  return std::nullopt;
}

bool Space::give(std::uint64_t begin) {
  const auto found = taken_.find(begin);
  if (found == taken_.end()) return false;
  taken_bytes_ -= found->second - found->first;
  taken_.erase(found);
  return true;
}

}  // namespace allocmark::planned
