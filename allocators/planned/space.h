// Which bytes of the reservation are in use. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "allocators/planned/plan.h"

namespace allocmark::planned {

class Space {
 public:
  // Takes the range where all of it is free.
  [[nodiscard]] bool take(const ByteRange& range);
  // The lowest range of this size in `within` that is free and that none of `avoided` needs, which
  // do not touch and are in order; takes it.
  [[nodiscard]] std::optional<std::uint64_t> take_hole(std::uint64_t size_bytes,
                                                       const ByteRange& within,
                                                       std::span<const ByteRange> avoided);
  // False where nothing in use begins there.
  [[nodiscard]] bool give(std::uint64_t begin);

  [[nodiscard]] bool has(std::uint64_t begin) const { return taken_.contains(begin); }
  [[nodiscard]] std::uint64_t taken_bytes() const { return taken_bytes_; }
  // Begin and end, by address.
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& taken() const { return taken_; }

 private:
  void note(const ByteRange& range);

  std::map<std::uint64_t, std::uint64_t> taken_;
  std::uint64_t taken_bytes_ = 0;
};

}  // namespace allocmark::planned
