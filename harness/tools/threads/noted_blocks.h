// Allocators whose blocks are noted: which live, of all threads together, or in a table as an
// allocator of a whole process keeps one. Blocks flow in; the first overlap flows out. Both note
// under a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include "allocators/backend/forwarding_backend.h"

namespace allocmark {

// All devices' live blocks, to find a block's device when it is given back. One lock around that
// table is what threads on different devices wait for; PyTorch had it until
// https://github.com/pytorch/pytorch/pull/118550 divided the table.
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

// A block that overlaps another one is said. This checks: its lock would spoil times.
class CheckedBlocks {
 public:
  void add(void* pointer, std::uint64_t size_bytes) {
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(pointer);
    const std::lock_guard lock(mutex_);
    ++request_count_;
    const auto after = sizes_.lower_bound(begin);
    if (after != sizes_.end() && after->first < begin + size_bytes) {
      note(size_bytes, after->second);
    } else if (after != sizes_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second > begin) note(size_bytes, before->second);
    }
    sizes_[begin] = size_bytes;
  }
  // Before the allocator gets it back: from then on it may be another thread's.
  void remove(void* pointer) {
    const std::lock_guard lock(mutex_);
    sizes_.erase(reinterpret_cast<std::uintptr_t>(pointer));
  }
  // Empty: no block overlapped another one.
  [[nodiscard]] const std::string& overlap() const { return overlap_; }

 private:
  void note(std::uint64_t size_bytes, std::uint64_t live_bytes) {
    if (!overlap_.empty()) return;
    overlap_ = fmt::format(
        "request {} of all threads ({} bytes) got memory of a block of {} bytes "
        "which is live",
        request_count_, size_bytes, live_bytes);
  }

  std::mutex mutex_;
  std::map<std::uintptr_t, std::uint64_t> sizes_;
  std::uint64_t request_count_ = 0;
  std::string overlap_;
};

// Notes each block with Blocks, one of these: when it is given out, and before the allocator gets
// it back.
// Not for null pointers: a request of size 0 has no block.
template <class Blocks>
class NotingBackend final : public ForwardingBackend {
 public:
  NotingBackend(Backend& inner, Blocks& blocks) : ForwardingBackend(inner), blocks_(blocks) {}

  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    const AllocateResult result = ForwardingBackend::allocate(size_bytes, stream);
    if (result.pointer != nullptr) blocks_.add(result.pointer, size_bytes);
    return result;
  }
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override {
    if (pointer != nullptr) blocks_.remove(pointer);
    ForwardingBackend::deallocate(pointer, size_bytes, stream);
  }

 private:
  Blocks& blocks_;
};

}  // namespace allocmark
