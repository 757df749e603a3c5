// The lock of the cache: one thread at a time, also where it was taken before there were others.
#include "base/mutex.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/catch.h"

using allocmark::Mutex;

TEST_CASE("threads count one after the other") {
  constexpr int kThreadCount = 4;
  constexpr int kCallCount = 50'000;
  Mutex mutex;
  long count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreadCount; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < kCallCount; ++call) {
        const std::lock_guard lock(mutex);
        count = count + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(count == long{kThreadCount} * kCallCount);
}

TEST_CASE("a thread that is made while the lock is held waits for it, and is woken") {
  Mutex mutex;
  mutex.lock();
  std::atomic<bool> is_in = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      const std::lock_guard lock(mutex);
      is_in = true;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(is_in);
  mutex.unlock();
  for (std::thread& thread : threads) thread.join();
  CHECK(is_in);
}
