// The CUDA runtime behind the capture library: each function that it stands before, as the program
// would have called it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace allocmark_capture {

// The function of that name in the CUDA runtime that the process has loaded. Where there is none,
// it says so and ends the program, as the dynamic linker would have done.
[[nodiscard]] void* find_in_runtime(const char* name);

// A text as a template's argument.
template <std::size_t size>
struct Name {
  constexpr Name(const char (&letters)[size]) { std::copy_n(letters, size, text); }
  char text[size];
};

// real<"cudaFree", decltype(&cudaFree)>()(pointer) calls what cudaFree would be without us.
template <Name name, class Function>
Function real() {
  static std::atomic<void*> known = nullptr;
  void* found = known.load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = find_in_runtime(name.text);
    known.store(found, std::memory_order_relaxed);
  }
  return reinterpret_cast<Function>(found);
}

}  // namespace allocmark_capture
