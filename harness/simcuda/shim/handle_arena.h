// Objects behind opaque handles, in one range of addresses. A handle that a program made up, or one
// of another kind, is told from ours without a look at what it points to. Objects are never given
// back, so a stale handle is seen as dead.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

namespace simcuda {

template <class T>
class HandleArena {
 public:
  static constexpr std::size_t kCountMax = std::size_t{1} << 20;  // of live ones: others are reused

  // A new object; null where there is no more room.
  [[nodiscard]] T* add() {
    const std::lock_guard lock(mutex_);
    const std::size_t index = count_.load(std::memory_order_relaxed);
    if (index == kCountMax || (objects_ == nullptr && !reserve())) return nullptr;
    T* const object = new (objects_ + index) T;
    count_.store(index + 1, std::memory_order_release);
    return object;
  }

  // The object of this handle; null where it is none of ours.
  [[nodiscard]] T* find(const void* handle) const {
    const std::size_t count = count_.load(std::memory_order_acquire);
    if (count == 0) return nullptr;
    const std::uintptr_t offset =
        reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(objects_);
    return offset % sizeof(T) == 0 && offset / sizeof(T) < count ? objects_ + offset / sizeof(T)
                                                                 : nullptr;
  }

  // Every object that was ever made, live or not.
  template <class Visit>
  void for_each(Visit visit) {
    const std::size_t count = count_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i) visit(objects_[i]);
  }

 private:
  // Takes no memory until objects are made.
  bool reserve() {
    void* const range = mmap(nullptr, kCountMax * sizeof(T), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return false;
    objects_ = static_cast<T*>(range);
    return true;
  }

  std::mutex mutex_;
  T* objects_ = nullptr;
  std::atomic<std::size_t> count_{0};
};

// Objects that know whether they are `live`. Those that were given back are used again. Not thread
// safe, but for find().
template <class T>
class ReusedObjects {
 public:
  // Null where there is no more room.
  [[nodiscard]] T* add() {
    T* object = nullptr;
    if (spare_.empty()) {
      object = arena_.add();
      if (object == nullptr) return nullptr;
    } else {
      object = spare_.back();
      spare_.pop_back();
    }
    *object = T{};
    object->live = true;
    return object;
  }
  void give_back(T& object) {
    object = T{};
    spare_.push_back(&object);
  }
  // Null where the handle is none of ours, or stale.
  [[nodiscard]] T* find(const void* handle) {
    T* const object = arena_.find(handle);
    return object != nullptr && object->live ? object : nullptr;
  }

 private:
  HandleArena<T> arena_;
  std::vector<T*> spare_;
};

}  // namespace simcuda
