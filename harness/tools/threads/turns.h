// Threads that run one after the other, always in the same order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace allocmark {

// Whose turn it is. A thread that fails lets all others go on, and they see that they should stop.
class Turns {
 public:
  explicit Turns(std::uint32_t thread_count) : thread_count_(thread_count) {}

  // False where another thread has failed.
  bool wait_for(std::uint32_t thread) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failed_ || turn_ == thread; });
    return !failed_;
  }
  void pass_on() {
    const std::lock_guard lock(mutex_);
    turn_ = (turn_ + 1) % thread_count_;
    changed_.notify_all();
  }
  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t thread_count_;
  std::uint32_t turn_ = 0;
  bool failed_ = false;
};

}  // namespace allocmark
