// Bytes that a program's pointers mean, and rectangles of them that are moved or set. In: pointers.
// Out: where the simulator has the bytes, and what it costs to move them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/simcuda/shim/cost.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {

struct Bytes {
  unsigned char* data = nullptr;      // null: not accessible
  SimulatedDevice* device = nullptr;  // null: host memory
  std::uint64_t address = 0;          // of the device's
  bool is_mapped = false;             // host memory that is the device's as well: managed, pinned
};

// Without the device's lock.
[[nodiscard]] Bytes locate(const void* pointer, std::size_t size_bytes);

[[nodiscard]] bool direction_fits(cudaMemcpyKind kind, const Bytes& to, const Bytes& from);
[[nodiscard]] CostId copy_cost(const Bytes& to, const Bytes& from);
// How long a copy takes on the device.
[[nodiscard]] std::uint64_t copy_ns(const Bytes& to, const Bytes& from, std::size_t size_bytes);

// One rectangle; plain copies have one row.
struct CopyShape {
  std::size_t to_pitch_bytes = 0;
  std::size_t from_pitch_bytes = 0;
  std::size_t width_bytes = 0;
  std::size_t row_count = 1;

  bool operator==(const CopyShape&) const = default;
};
[[nodiscard]] inline std::size_t span_bytes(std::size_t pitch_bytes, const CopyShape& shape) {
  return pitch_bytes * (shape.row_count - 1) + shape.width_bytes;
}
void move_bytes(const Bytes& to, const Bytes& from, const CopyShape& shape);

// What a fill writes, over and over: the lowest 1, 2 or 4 bytes of `value`.
struct FillValue {
  std::uint32_t value = 0;
  std::size_t element_bytes = 1;
};
[[nodiscard]] inline FillValue byte_value(int value) {
  return {.value = static_cast<std::uint32_t>(value)};
}
// Rows hold whole elements, and begin where such elements may.
// Without the device's lock.
void set_bytes(const Bytes& to, FillValue value, const CopyShape& shape);

}  // namespace simcuda
