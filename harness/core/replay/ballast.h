// Enforces a capacity on the device: holds back so much memory that exactly the wanted bytes are
// left, on a GPU and on simcuda alike.
#pragma once

#include <cstdint>
#include <utility>

namespace allocmark {

// Free bytes of the current device (cudaMemGetInfo); on a simulated one that shares the host's
// memory, what a program can take. Throws EnvironmentError.
[[nodiscard]] std::uint64_t device_free_bytes();

// What the current device leaves to programs now, beside its context and what is held of it, in
// whole pages: the one number that capacities, causes and answers are measured against. A simulated
// device gives one page less than it reports free, as an H200 does; what another card gives of its
// last pages is not known before it is tried.
[[nodiscard]] std::uint64_t usable_device_bytes(bool is_simulated);

class Ballast {
 public:
  Ballast() = default;
  // Leaves left_bytes (a multiple of 2 MiB) of the current device free and checks it; may block the
  // host. Throws UsageError where the device has less, EnvironmentError where what is left cannot
  // be made to fit.
  explicit Ballast(std::uint64_t left_bytes);
  ~Ballast();
  Ballast(Ballast&& other) noexcept : pages_(std::exchange(other.pages_, 0)) {}
  Ballast& operator=(Ballast&& other) noexcept {
    std::swap(pages_, other.pages_);
    return *this;
  }

 private:
  // False where the device has not enough.
  [[nodiscard]] bool take(std::uint64_t size_bytes);
  // Whether one block of that size can be had now.
  [[nodiscard]] static bool fits(std::uint64_t size_bytes);
  void release() noexcept;

  // Physical pages without an address (cuMemCreate): where the backend's blocks lie does not depend
  // on how much is held back.
  unsigned long long pages_ = 0;
};

}  // namespace allocmark
