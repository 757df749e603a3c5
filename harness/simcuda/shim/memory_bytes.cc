// See memory_bytes.h.
#include "harness/simcuda/shim/memory_bytes.h"

#include <algorithm>
#include <cstring>

#include "base/link_time.h"
#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/host_memory.h"
#include "harness/simcuda/shim/managed_memory.h"
#include "harness/simcuda/shim/touches.h"

namespace simcuda {
namespace {

// Fills of less write the bytes, which is quicker than to ask the system.
constexpr std::size_t kFillBytesMin = std::size_t{64} << 10;

bool is_one_byte(FillValue value) {
  const std::uint32_t low = value.value & 0xff;
  return value.element_bytes == 1 ||
         (value.element_bytes == 2 && (value.value & 0xffff) == low * 0x0101U) ||
         (value.element_bytes == 4 && value.value == low * 0x01010101U);
}

// Rows of the host's that the call reads or writes.
void note_host_rows(const Bytes& bytes, std::size_t pitch_bytes, const CopyShape& shape,
                    bool is_written) {
  PromisedOrder& promised = this_thread().promised;
  if (bytes.device != nullptr || promised.hidden_depth == 0) return;
  for (std::size_t row = 0; row < shape.row_count; ++row) {
    promised.host_bytes.push_back({.begin = bytes.data + row * pitch_bytes,
                                   .size_bytes = shape.width_bytes,
                                   .is_written = is_written});
  }
}

}  // namespace

Bytes locate(const void* pointer, std::size_t size_bytes) {
  const std::uint64_t address = number(pointer);
  SimulatedDevice* device = device_of_address(address);
  if (device == nullptr) {
    const Range managed = managed_block(pointer).range;
    if (managed.lo != 0 && size_bytes > managed.hi - address) return {};
    return {.data = static_cast<unsigned char*>(const_cast<void*>(pointer)),
            .is_mapped = host_allocation(pointer).lo != 0};
  }
  tell_touch(pointer, size_bytes);
  const std::lock_guard lock(device->mutex);
  return {.data = static_cast<unsigned char*>(device->view(address, size_bytes)),
          .device = device,
          .address = address};
}

bool direction_fits(cudaMemcpyKind kind, const Bytes& to, const Bytes& from) {
  const bool to_device = to.device != nullptr || to.is_mapped;
  const bool from_device = from.device != nullptr || from.is_mapped;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return to.device == nullptr && from.device == nullptr;
    case cudaMemcpyHostToDevice:
      return to_device;
    case cudaMemcpyDeviceToHost:
      return from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    default:
      return true;
  }
}

CostId copy_cost(const Bytes& to, const Bytes& from) {
  if (to.device != nullptr && from.device != nullptr) return CostId::MemcpyOnDevice;
  return to.device != nullptr ? CostId::MemcpyHostToDevice : CostId::MemcpyDeviceToHost;
}

std::uint64_t copy_ns(const Bytes& to, const Bytes& from, std::size_t size_bytes) {
  const bool is_between_devices =
      to.device != nullptr && from.device != nullptr && to.device != from.device;
  return is_between_devices ? allocmark::link_ns(size_bytes)
                            : median_cost(copy_cost(to, from), size_bytes);
}

void move_bytes(const Bytes& to, const Bytes& from, const CopyShape& shape) {
  note_host_rows(from, shape.from_pitch_bytes, shape, false);
  note_host_rows(to, shape.to_pitch_bytes, shape, true);
  for (std::size_t row = 0; row < shape.row_count; ++row) {
    std::memmove(to.data + row * shape.to_pitch_bytes, from.data + row * shape.from_pitch_bytes,
                 shape.width_bytes);
  }
}

void set_bytes(const Bytes& to, FillValue value, const CopyShape& shape) {
  if (to.device != nullptr && shape.row_count == 1 && shape.width_bytes >= kFillBytesMin &&
      is_one_byte(value)) {
    const std::lock_guard lock(to.device->mutex);
    to.device->contents.fill({to.address, to.address + shape.width_bytes},
                             static_cast<unsigned char>(value.value));
    return;
  }
  note_host_rows(to, shape.to_pitch_bytes, shape, true);
  for (std::size_t row = 0; row < shape.row_count; ++row) {
    unsigned char* const begin = to.data + row * shape.to_pitch_bytes;
    if (value.element_bytes == 1) {
      std::memset(begin, static_cast<int>(value.value), shape.width_bytes);
    } else if (value.element_bytes == 2) {
      std::fill_n(reinterpret_cast<std::uint16_t*>(begin), shape.width_bytes / 2,
                  static_cast<std::uint16_t>(value.value));
    } else {
      std::fill_n(reinterpret_cast<std::uint32_t*>(begin), shape.width_bytes / 4, value.value);
    }
  }
}

}  // namespace simcuda
