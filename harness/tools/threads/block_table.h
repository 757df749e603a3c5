// What an allocator of a whole process does besides: it keeps all devices' live blocks in a table,
// to find a block's device when it is given back. One lock around that table is what threads on
// different devices wait for; PyTorch had it until https://github.com/pytorch/pytorch/pull/118550
// divided the table. Blocks are noted under a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace allocmark {

class BlockTable {
 public:
  // Each part has a lock of its own.
  explicit BlockTable(std::size_t part_count) : parts_(part_count) {}

  void add(void* pointer, std::uint64_t size_bytes) {
    Part& part = part_of(pointer);
    const std::lock_guard lock(part.mutex);
    part.sizes[pointer] = size_bytes;
  }
  void remove(void* pointer) {
    Part& part = part_of(pointer);
    const std::lock_guard lock(part.mutex);
    part.sizes.erase(pointer);
  }

 private:
  struct alignas(64) Part {
    std::mutex mutex;
    std::unordered_map<void*, std::uint64_t> sizes;
  };
  [[nodiscard]] Part& part_of(void* pointer) {
    // Blocks begin at multiples of 512 bytes.
    return parts_[std::hash<std::uintptr_t>()(reinterpret_cast<std::uintptr_t>(pointer) >> 9) %
                  parts_.size()];
  }
  std::vector<Part> parts_;
};

}  // namespace allocmark
