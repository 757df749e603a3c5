// Which offsets are taken, by time: what first fit asks and changes. In: blocks at offsets, each
// over a range of sections of time. Out: the lowest offset that is free over a range of sections.
//
// A tree over the sections; each node spans a power of two of them. A block covers few nodes whole,
// and few others lie above these: only they learn of it. Each keeps ranges of offsets that do not
// touch, so that blocks side by side are one range. A packing is dense: the lists stay short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace allocmark {

// Of time sections, by index: [begin, end), not empty.
struct SectionRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

class Occupied {
 public:
  explicit Occupied(std::size_t section_count);

  // The lowest offset from which so many bytes, 1 or more, are free in all these sections.
  [[nodiscard]] std::uint64_t lowest_free(SectionRange when, std::uint64_t size_bytes);
  void take(SectionRange when, std::uint64_t offset, std::uint64_t size_bytes);
  void clear();

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  using Ranges = std::vector<Range>;  // ascending, with room between them
  static void add(Ranges& ranges, Range range);

  // Calls whole(node) for the highest nodes within the sections, and part(node) for all that reach
  // beyond them.
  template <class Whole, class Part>
  void visit(SectionRange when, Whole whole, Part part) const;

  std::size_t leaf_count_;  // a power of two; leaves are nodes leaf_count_ and up, 1 is the root
  std::vector<Ranges> anywhere_;  // taken in any of a node's sections
  std::vector<Ranges> always_;    // taken in all of them by blocks that do so in no higher node
  // In lowest_free: what is left of each list that counts.
  struct Rest {
    const Range* next = nullptr;
    const Range* end = nullptr;
  };
  std::vector<Rest> rests_;
};

}  // namespace allocmark
