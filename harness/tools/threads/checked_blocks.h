// Which blocks live, of all threads together: a block that overlaps another one is said. Calls flow
// through; the first overlap flows out. This file checks: its lock would spoil times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include <fmt/format.h>
#include "allocators/backend/backend.h"

namespace allocmark {

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

// Not for null pointers: a request of size 0 has no block.
class CheckedBackend final : public Backend {
 public:
  CheckedBackend(Backend& inner, CheckedBlocks& blocks) : inner_(inner), blocks_(blocks) {}

  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    const AllocateResult result = inner_.allocate(size_bytes, stream);
    if (result.pointer != nullptr) blocks_.add(result.pointer, size_bytes);
    return result;
  }
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override {
    if (pointer != nullptr) blocks_.remove(pointer);
    inner_.deallocate(pointer, size_bytes, stream);
  }
  void record_stream(void* pointer, cudaStream_t stream) override {
    inner_.record_stream(pointer, stream);
  }
  void trim() override { inner_.trim(); }
  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override {
    return inner_.stats(stream);
  }
  [[nodiscard]] MemoryStats totals() const override { return inner_.totals(); }

 private:
  Backend& inner_;
  CheckedBlocks& blocks_;
};

}  // namespace allocmark
