// A list of free blocks that join with their neighbours in the same memory of the device. A request
// takes the smallest block that fits, the lowest of equals.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace allocmark::rmm {

class CoalescingList {
 public:
  struct Block {
    std::uint64_t size_bytes = 0;
    bool is_head = false;  // begins where memory of the device does, and joins nothing before it
  };

  // Joins it with what lies beside it.
  void insert(std::uint64_t address, Block block);
  [[nodiscard]] bool fits(std::uint64_t size_bytes) const;
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t size_bytes);
  void join(CoalescingList&& other);
  // Takes out a block that is exactly this; false where there is none.
  [[nodiscard]] bool erase(std::uint64_t address, std::uint64_t size_bytes);
  [[nodiscard]] bool has(std::uint64_t address, std::uint64_t size_bytes) const;

  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] std::uint64_t bytes_largest() const;

 private:
  std::map<std::uint64_t, Block> blocks_;  // by address
};

}  // namespace allocmark::rmm
