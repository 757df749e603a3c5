// The same work on each of several things, on threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace allocmark {

// Calls body(0) to body(count - 1), at most `thread_count_max` at a time, and at least one. An
// exception of any of them is thrown here, when all have ended.
template <typename Body>
void for_each_in_parallel(std::size_t count, std::size_t thread_count_max, const Body& body) {
  if (count == 0) return;
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> failures(std::clamp<std::size_t>(thread_count_max, 1, count));
  {
    std::vector<std::jthread> threads;
    for (std::exception_ptr& failure : failures) {
      threads.emplace_back([&] {
        try {
          for (std::size_t i = next++; i < count; i = next++) body(i);
        } catch (...) {
          failure = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace allocmark
