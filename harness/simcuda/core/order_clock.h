// What a stream or an event comes after: per stream the last position that is known to come before.
// A value; copies share their entries until one of them changes, so that recording an event costs
// no copy.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace simcuda {

class OrderClock {
 public:
  // 0 where nothing is known of `stream`.
  [[nodiscard]] std::uint64_t position_of(std::uint32_t stream) const;
  void raise(std::uint32_t stream, std::uint64_t position);
  // Takes over everything that `other` comes after.
  void merge(const OrderClock& other);

 private:
  struct Entry {
    std::uint32_t stream = 0;
    std::uint64_t position = 0;
  };
  using Entries = std::vector<Entry>;  // ascending by stream
  Entries& own_entries();

  std::shared_ptr<Entries> entries_;  // null: empty
};

}  // namespace simcuda
