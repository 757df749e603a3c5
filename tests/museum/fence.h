// Freed memory cannot be read: from begin_fence on, operator new takes whole pages, and operator
// delete takes their access away for good. A use of an object that is gone ends the process, every
// time. Replaces operator new, so one file of a program includes it.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace museum {

class Fence {
 public:
  void begin() {
    void* const area = mmap(nullptr, kAreaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area != MAP_FAILED) begin_ = static_cast<char*>(area);
  }
  [[nodiscard]] bool holds(const void* pointer) const {
    return begin_ != nullptr && pointer >= begin_ && pointer < begin_ + kAreaBytes;
  }
  // The first page keeps the size; the object begins on the second.
  [[nodiscard]] void* take(std::size_t size_bytes) {
    const std::size_t bytes = (size_bytes + 2 * kPageBytes - 1) / kPageBytes * kPageBytes;
    const std::size_t offset = used_bytes_.fetch_add(bytes);
    if (begin_ == nullptr || offset + bytes > kAreaBytes) return std::malloc(size_bytes);
    char* const page = begin_ + offset;
    if (mprotect(page, bytes, PROT_READ | PROT_WRITE) != 0) return nullptr;
    *reinterpret_cast<std::size_t*>(page) = bytes;
    return page + kPageBytes;
  }
  void give(void* pointer) {
    if (!holds(pointer)) return std::free(pointer);
    char* const page = static_cast<char*>(pointer) - kPageBytes;
    (void)mprotect(page, *reinterpret_cast<std::size_t*>(page), PROT_NONE);
  }

 private:
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kAreaBytes = std::size_t{1} << 30;
  char* begin_ = nullptr;
  std::atomic<std::size_t> used_bytes_ = 0;
};

inline Fence& fence() {
  static Fence one;
  return one;
}
inline void begin_fence() { fence().begin(); }

}  // namespace museum

void* operator new(std::size_t size_bytes) {
  void* const pointer = museum::fence().take(size_bytes);
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}
void operator delete(void* pointer) noexcept { museum::fence().give(pointer); }
void operator delete(void* pointer, std::size_t /*size_bytes*/) noexcept {
  museum::fence().give(pointer);
}
