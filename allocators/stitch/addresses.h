// Where views lie: address space that is reserved in large regions, once, and given out by a rule
// of our own. The driver decides where a region begins, which differs between machines and between
// two runs on one. Nothing else does: a place has an order, which is the same in every run, and
// whoever has to choose among places chooses by it. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "allocators/cuda/driver.h"

namespace allocmark::stitch {

struct Place {
  std::uint64_t address = 0;
  // Region and offset. Within a region places are ordered as their addresses are.
  std::uint64_t order = 0;
};

class Addresses {
 public:
  // A region has region_bytes, a multiple of every size that is taken; a larger request gets a
  // region of its own size. The driver has to outlive this.
  Addresses(caching::Driver& driver, std::uint64_t region_bytes);
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  // Gives all regions back; nothing of them may be mapped any more.
  ~Addresses();

  // The first free place in order that is large enough; a new region where there is none. Throws
  // what the driver throws, and then nothing has changed.
  [[nodiscard]] Place take(std::uint64_t size_bytes);
  // A place that was taken with that size.
  void give(const Place& place, std::uint64_t size_bytes);

 private:
  struct Region {
    std::uint64_t address = 0, size_bytes = 0;
  };

  [[nodiscard]] Place place_at(std::uint64_t order) const;

  caching::Driver& driver_;
  std::uint64_t region_bytes_;
  std::vector<Region> regions_;
  std::map<std::uint64_t, std::uint64_t> free_;  // bytes by order; neighbours are joined
};

}  // namespace allocmark::stitch
