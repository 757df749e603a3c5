// ThreadSanitizer, where the program runs under it. This library is not compiled with it, so it
// does not see our atomics and the compiler's guards of local statics: what they order is told to
// it here. It does see our mutexes, whose order is none that CUDA promises: calls are hidden from
// it, and tell it of what is promised (call.h).
#pragma once

extern "C" {
// Defined by ThreadSanitizer's runtime, null without it.
__attribute__((weak)) void __tsan_acquire(void* address);
__attribute__((weak)) void __tsan_release(void* address);
__attribute__((weak)) void __tsan_read_range(void* address, unsigned long size_bytes);
__attribute__((weak)) void __tsan_write_range(void* address, unsigned long size_bytes);
__attribute__((weak)) void AnnotateIgnoreSyncBegin(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreSyncEnd(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreReadsBegin(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreReadsEnd(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreWritesBegin(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreWritesEnd(const char* file, int line);
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

// Calls hide from it, unless this library is itself compiled with it, for tests of its own races.
[[nodiscard]] inline bool hides_from_sanitizer() {
#ifdef __SANITIZE_THREAD__
  return false;
#else
  return under_thread_sanitizer() && AnnotateIgnoreSyncBegin != nullptr;
#endif
}
// From here on the thread's locks order nothing, and its reads and writes are no races. Nests.
inline void hide_from_sanitizer() {
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
inline void show_to_sanitizer() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}
class HiddenFromSanitizer {
 public:
  HiddenFromSanitizer() {
    if (hides_from_sanitizer()) hide_from_sanitizer();
  }
  ~HiddenFromSanitizer() {
    if (hides_from_sanitizer()) show_to_sanitizer();
  }
  HiddenFromSanitizer(const HiddenFromSanitizer&) = delete;
  HiddenFromSanitizer& operator=(const HiddenFromSanitizer&) = delete;
};

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
