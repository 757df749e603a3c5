// ThreadSanitizer, where the program runs under it. This library is not compiled with it, so it
// does not see our atomics and the compiler's guards of local statics: what they order is told to
// it here.
#pragma once

extern "C" {
// Defined by ThreadSanitizer's runtime, null without it.
__attribute__((weak)) void __tsan_acquire(void* address);
__attribute__((weak)) void __tsan_release(void* address);
}

namespace simcuda {

[[nodiscard]] inline bool under_thread_sanitizer() { return __tsan_acquire != nullptr; }

// All that this thread did before release(p) is seen by one that calls acquire(p) after it.
inline void acquire(void* address) {
  if (__tsan_acquire != nullptr) [[unlikely]] {
    __tsan_acquire(address);
  }
}
inline void release(void* address) {
  if (__tsan_release != nullptr) [[unlikely]] {
    __tsan_release(address);
  }
}

// The object of type T that is made on first use (static initialisers of other libraries call us)
// and never destroyed (destructors of others still do).
template <class T>
[[nodiscard]] T& made_once() {
  static T* const instance = [] {
    T* made = new T;
    release(made);
    return made;
  }();
  acquire(instance);
  return *instance;
}

}  // namespace simcuda
