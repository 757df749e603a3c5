// A mutex for calls that take some tens of nanoseconds, of which std::mutex would be a good part:
// it is inlined, and a process with one thread pays for no atomic operation.
#pragma once

#include <sys/single_threaded.h>

#include <atomic>
#include <cstdint>

namespace allocmark {

// Not recursive. Who waits sleeps in the kernel. Works with std::lock_guard.
class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  [[gnu::always_inline]] void lock() {
    // A thread that is made while this one holds the lock finds it taken.
    if (__libc_single_threaded && state_.load(std::memory_order_relaxed) == kFree) {
      return state_.store(kTaken, std::memory_order_relaxed);
    }
    std::uint32_t expected = kFree;
    if (!state_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire)) [[unlikely]] {
      wait();
    }
  }

  [[gnu::always_inline]] void unlock() {
    if (__libc_single_threaded) return state_.store(kFree, std::memory_order_relaxed);
    if (state_.exchange(kFree, std::memory_order_release) == kWaitedFor) [[unlikely]] {
      state_.notify_one();
    }
  }

 private:
  static constexpr std::uint32_t kFree = 0, kTaken = 1, kWaitedFor = 2;

  // Who has waited takes the lock as one that is waited for: others may wait as well.
  [[gnu::noinline]] void wait() {
    while (state_.exchange(kWaitedFor, std::memory_order_acquire) != kFree) {
      state_.wait(kWaitedFor, std::memory_order_relaxed);
    }
  }

  std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace allocmark
