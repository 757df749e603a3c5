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
    // What lies behind the range does not count.
    const bool has_used = used != taken_.end() && used->first < within.end;
    const bool has_needed = needed != avoided.end() && needed->begin < within.end;
    const std::uint64_t used_begin = has_used ? used->first : within.end;
    const std::uint64_t needed_begin = has_needed ? needed->begin : within.end;
    if (begin + size_bytes <= std::min(used_begin, needed_begin)) {
      note({.begin = begin, .end = begin + size_bytes});
      return begin;
    }
    if (!has_used && !has_needed) return std::nullopt;
    begin = used_begin <= needed_begin ? used->second : needed->end;
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
