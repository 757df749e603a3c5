// CUDA arrays: memory whose layout the device keeps to itself. In: formats, extents, and rows to
// copy. Out: arrays, whose bytes lie row after row here, and what they cost: rows of 64 bytes, in
// blocks of at most 128 rows, or of 8 rows and at most 16 planes. That fits the 27 shapes measured
// on an H200 (driver 580.159.04, 2026-11-27). Kernels cannot read them, as they do nothing.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "harness/simcuda/shim/call.h"

namespace simcuda {

struct Array {
  int device = 0;
  std::uint64_t address = 0;
  std::uint64_t pitch_bytes = 0;  // of the bytes as they lie here
  std::uint64_t element_bytes = 0;
  cudaChannelFormatDesc format{};
  cudaExtent extent{};
  unsigned flags = 0;

  [[nodiscard]] std::uint64_t row_count() const {
    return std::max<std::uint64_t>(extent.height, 1) * std::max<std::uint64_t>(extent.depth, 1);
  }
};

// What the array has; nothing where that is none.
[[nodiscard]] std::optional<Array> find_array(std::uint64_t handle);
[[nodiscard]] cudaError_t make_array(ThreadState& thread, std::uint64_t* handle,
                                     const cudaChannelFormatDesc* format, const cudaExtent& extent,
                                     unsigned level_count, unsigned flags);
[[nodiscard]] cudaError_t drop_array(ThreadState& thread, std::uint64_t handle);
[[nodiscard]] cudaError_t make_mipmap(ThreadState& thread, cudaMipmappedArray_t* result,
                                      const cudaChannelFormatDesc* format, const cudaExtent& extent,
                                      unsigned level_count, unsigned flags);
// A level is an array that has no memory of its own.
[[nodiscard]] cudaError_t level_of(cudaArray_t* result, cudaMipmappedArray_const_t handle,
                                   unsigned level);
[[nodiscard]] cudaError_t drop_mipmap(ThreadState& thread, cudaMipmappedArray_t handle);

}  // namespace simcuda
