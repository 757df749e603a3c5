#include "harness/simcuda/shim/arrays.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "harness/simcuda/core/units.h"
#include "harness/simcuda/shim/memory.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kPitchUnitBytes = 64;
constexpr std::uint64_t kRowUnit = 8;
constexpr std::uint64_t kRowsMax = 128;   // of a block of a plane
constexpr std::uint64_t kPlanesMax = 16;  // of a block of a volume
constexpr std::size_t kLineMax = 131072;
constexpr std::size_t kPlaneRowsMax = 65536;
constexpr std::size_t kVolumeMax = 16384;

// By handle, which is never reused while the process lives.
std::mutex arrays_mutex;
std::map<std::uint64_t, Array> arrays;
std::uint64_t next_array = 0x10000000;

std::uint64_t element_bytes_of(const cudaChannelFormatDesc& format) {
  return static_cast<std::uint64_t>(format.x + format.y + format.z + format.w) / 8;
}

// One, two or four channels of the same 8, 16 or 32 bits.
bool is_format(const cudaChannelFormatDesc& format) {
  const bool has_bits = format.x == 8 || format.x == 16 || format.x == 32;
  const bool one = format.y == 0 && format.z == 0 && format.w == 0;
  const bool two = format.y == format.x && format.z == 0 && format.w == 0;
  const bool four = format.y == format.x && format.z == format.x && format.w == format.x;
  return has_bits && (one || two || four);
}

bool is_extent(const cudaExtent& extent, unsigned flags) {
  const bool is_layered = (flags & (cudaArrayLayered | cudaArrayCubemap)) != 0;
  if (extent.width == 0 || extent.width > kLineMax) return false;
  if (extent.height == 0) return extent.depth == 0 || is_layered;
  if (extent.height > kPlaneRowsMax) return false;
  const bool is_volume = extent.depth != 0 && !is_layered;
  return !is_volume || std::max({extent.width, extent.height, extent.depth}) <= kVolumeMax;
}

// What the device takes for one level.
std::uint64_t level_bytes(const cudaExtent& extent, std::uint64_t element_bytes, unsigned flags) {
  const std::uint64_t pitch = round_up(extent.width * element_bytes, kPitchUnitBytes);
  const std::uint64_t rows = std::max<std::uint64_t>(extent.height, 1);
  const bool is_layered = (flags & (cudaArrayLayered | cudaArrayCubemap)) != 0;
  const bool is_volume = extent.depth != 0 && !is_layered;
  const std::uint64_t planes = std::max<std::uint64_t>(extent.depth, 1);
  if (is_volume) {
    const std::uint64_t block = std::min(std::bit_ceil(planes), kPlanesMax);
    return pitch * round_up(rows, kRowUnit) * round_up(planes, block);
  }
  const std::uint64_t units = std::bit_ceil(round_up(rows, kRowUnit) / kRowUnit);
  return pitch * round_up(rows, std::min(units * kRowUnit, kRowsMax)) * planes;
}

cudaExtent level_extent(const cudaExtent& extent, unsigned level) {
  const auto halved = [&](std::size_t side) {
    return side == 0 ? 0 : std::max<std::size_t>(side >> level, 1);
  };
  return {halved(extent.width), halved(extent.height), halved(extent.depth)};
}

std::map<std::uint64_t, unsigned> mipmaps;  // handle of an array -> its levels

}  // namespace

cudaError_t make_array(ThreadState& thread, std::uint64_t* handle,
                       const cudaChannelFormatDesc* format, const cudaExtent& extent,
                       unsigned level_count, unsigned flags) {
  if (handle == nullptr || format == nullptr) return cudaErrorInvalidValue;
  if (!is_format(*format)) return cudaErrorInvalidChannelDescriptor;
  if (!is_extent(extent, flags)) return cudaErrorInvalidValue;
  Array array{.device = thread.device,
              .element_bytes = element_bytes_of(*format),
              .format = *format,
              .extent = extent,
              .flags = flags};
  array.pitch_bytes = extent.width * array.element_bytes;
  std::uint64_t size_bytes = 0;
  for (unsigned level = 0; level < level_count; ++level) {
    size_bytes += level_bytes(level_extent(extent, level), array.element_bytes, flags);
  }
  void* memory = nullptr;
  const cudaError_t error = allocate_memory(thread, &memory, size_bytes);
  if (error != cudaSuccess) return error;
  array.address = number(memory);
  const std::lock_guard lock(arrays_mutex);
  *handle = next_array;
  next_array += 0x100;
  arrays.emplace(*handle, array);
  return cudaSuccess;
}

cudaError_t drop_array(ThreadState& thread, std::uint64_t handle) {
  std::unique_lock lock(arrays_mutex);
  const auto found = arrays.find(handle);
  if (found == arrays.end()) return cudaErrorContextIsDestroyed;
  void* const memory = reinterpret_cast<void*>(found->second.address);
  arrays.erase(found);
  lock.unlock();
  return free_memory(thread, memory);
}

std::optional<Array> find_array(std::uint64_t handle) {
  const std::lock_guard lock(arrays_mutex);
  const auto found = arrays.find(handle);
  return found == arrays.end() ? std::nullopt : std::optional(found->second);
}

cudaError_t make_mipmap(ThreadState& thread, cudaMipmappedArray_t* result,
                        const cudaChannelFormatDesc* format, const cudaExtent& extent,
                        unsigned level_count, unsigned flags) {
  const std::size_t longest = std::max({extent.width, extent.height, extent.depth});
  const auto level_count_max = static_cast<unsigned>(std::bit_width(longest));
  level_count = std::clamp(level_count, 1u, std::max(level_count_max, 1u));
  std::uint64_t handle = 0;
  const cudaError_t error =
      make_array(thread, result == nullptr ? nullptr : &handle, format, extent, level_count, flags);
  if (error != cudaSuccess) return error;
  *result = reinterpret_cast<cudaMipmappedArray_t>(handle);
  const std::lock_guard lock(arrays_mutex);
  mipmaps[handle] = level_count;
  return cudaSuccess;
}

cudaError_t level_of(cudaArray_t* result, cudaMipmappedArray_const_t handle, unsigned level) {
  const std::lock_guard lock(arrays_mutex);
  const auto found = mipmaps.find(number(handle));
  if (result == nullptr || found == mipmaps.end() || level >= found->second) {
    return cudaErrorInvalidValue;
  }
  *result = reinterpret_cast<cudaArray_t>(found->first + level);
  return cudaSuccess;
}

cudaError_t drop_mipmap(ThreadState& thread, cudaMipmappedArray_t handle) {
  if (handle == nullptr) return cudaSuccess;
  {
    const std::lock_guard lock(arrays_mutex);
    if (mipmaps.erase(number(handle)) == 0) return cudaErrorContextIsDestroyed;
  }
  return drop_array(thread, number(handle));
}

}  // namespace simcuda
