// Keeps the host's memory away from the places where a GPU's memory will lie. The driver takes its
// address ranges from the kernel as any mmap does, the highest place that is free. What a program
// maps after the driver has started can land right below the driver's first range, and then every
// later block lies 32 MiB lower. That depends on where the kernel put the libraries: it happened
// in 7 of 180 cells on two H200s (2026-11-25), and the same program placed blocks in two ways.
// Neither times nor checks.
#pragma once

namespace allocmark {

// To be alive while the first CUDA call makes the context. It holds a range of addresses above the
// driver's; once it is gone, what the host maps goes there. The range is too small for any range
// that the driver takes.
class HostRoom {
 public:
  // Also has the C library take large blocks of this process from its heap, never from mmap.
  HostRoom();
  ~HostRoom();
  HostRoom(const HostRoom&) = delete;
  HostRoom& operator=(const HostRoom&) = delete;

  static constexpr unsigned long kBytes = 48ul << 20;

  // Where it is; null where the system gave none, and placements may differ between processes.
  [[nodiscard]] const void* begin() const { return begin_; }

 private:
  void* begin_ = nullptr;
};

}  // namespace allocmark
