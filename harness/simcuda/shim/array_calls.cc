// The functions of arrays: made, freed, asked, copied. In: what the calls take. Out: their codes.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "harness/simcuda/shim/arrays.h"
#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

// Bytes of a plane's rows, from (x bytes, y) on.
struct Part {
  std::size_t x_bytes = 0;
  std::size_t y = 0;
  std::size_t width_bytes = 0;
  std::size_t height = 0;
};

// Where the part lies; an error where it is no part of the array.
cudaError_t find_part(const std::optional<Array>& array, const Part& part, void** place) {
  if (!array) return cudaErrorInvalidResourceHandle;
  const bool fits = part.x_bytes <= array->pitch_bytes && part.y <= array->row_count() &&
                    part.width_bytes <= array->pitch_bytes - part.x_bytes &&
                    part.height <= array->row_count() - part.y;
  *place = reinterpret_cast<void*>(array->address + part.y * array->pitch_bytes + part.x_bytes);
  return fits ? cudaSuccess : cudaErrorInvalidValue;
}

// The same of bytes that follow one another: rows are one piece here.
cudaError_t find_bytes(cudaArray_const_t handle, std::size_t x_bytes, std::size_t y,
                       std::size_t size_bytes, void** place) {
  const std::optional<Array> found = find_array(number(handle));
  if (!found) return cudaErrorInvalidResourceHandle;
  const std::uint64_t begin = y * found->pitch_bytes + x_bytes;
  const std::uint64_t whole = found->pitch_bytes * found->row_count();
  *place = reinterpret_cast<void*>(found->address + begin);
  return begin > whole || size_bytes > whole - begin ? cudaErrorInvalidValue : cudaSuccess;
}

struct FormatRow {
  CUarray_format driver = CU_AD_FORMAT_UNSIGNED_INT8;
  int bits = 0;
  cudaChannelFormatKind kind = cudaChannelFormatKindUnsigned;
};
constexpr std::array kFormats = {
    FormatRow{CU_AD_FORMAT_UNSIGNED_INT8, 8, cudaChannelFormatKindUnsigned},
    FormatRow{CU_AD_FORMAT_UNSIGNED_INT16, 16, cudaChannelFormatKindUnsigned},
    FormatRow{CU_AD_FORMAT_UNSIGNED_INT32, 32, cudaChannelFormatKindUnsigned},
    FormatRow{CU_AD_FORMAT_SIGNED_INT8, 8, cudaChannelFormatKindSigned},
    FormatRow{CU_AD_FORMAT_SIGNED_INT16, 16, cudaChannelFormatKindSigned},
    FormatRow{CU_AD_FORMAT_SIGNED_INT32, 32, cudaChannelFormatKindSigned},
    FormatRow{CU_AD_FORMAT_HALF, 16, cudaChannelFormatKindFloat},
    FormatRow{CU_AD_FORMAT_FLOAT, 32, cudaChannelFormatKindFloat}};

// Unsigned where the driver has no such kind of that many bits.
CUarray_format driver_format(const cudaChannelFormatDesc& format) {
  const auto* found = std::ranges::find_if(
      kFormats, [&](const FormatRow& row) { return row.bits == format.x && row.kind == format.f; });
  if (found == kFormats.end()) found = std::ranges::find(kFormats, format.x, &FormatRow::bits);
  return found->driver;
}

std::optional<cudaChannelFormatDesc> runtime_format(CUarray_format format, unsigned channels) {
  const auto* const row = std::ranges::find(kFormats, format, &FormatRow::driver);
  if (row == kFormats.end() || (channels != 1 && channels != 2 && channels != 4)) {
    return std::nullopt;
  }
  return cudaChannelFormatDesc{row->bits, channels > 1 ? row->bits : 0,
                               channels > 2 ? row->bits : 0, channels > 2 ? row->bits : 0,
                               row->kind};
}

// The runtime's arrays are the driver's.
template <class Result>
cudaError_t give_array(ThreadState& thread, Result* result, const cudaChannelFormatDesc* format,
                       const cudaExtent& extent, unsigned level_count, unsigned flags) {
  std::uint64_t handle = 0;
  const cudaError_t error =
      make_array(thread, result == nullptr ? nullptr : &handle, format, extent, level_count, flags);
  if (error == cudaSuccess) *result = reinterpret_cast<Result>(handle);
  return error;
}

cudaError_t create_described(ThreadState& thread, CUarray* result, CUarray_format format,
                             unsigned channels, const cudaExtent& extent, unsigned flags) {
  const std::optional<cudaChannelFormatDesc> described = runtime_format(format, channels);
  if (result == nullptr || !described) return cudaErrorInvalidValue;
  return give_array(thread, result, &*described, extent, 1, flags);
}

}  // namespace

SIMCUDA_RUNTIME(cudaMallocArray,
                (cudaArray_t * array, const cudaChannelFormatDesc* format, size_t width,
                 size_t height, unsigned int flags),
                (width, height, flags),
                give_array(thread, array, format, {width, height, 0}, 1, flags))

SIMCUDA_RUNTIME(cudaMalloc3DArray,
                (cudaArray_t * array, const cudaChannelFormatDesc* format, cudaExtent extent,
                 unsigned int flags),
                (extent.width, extent.height, extent.depth, flags),
                give_array(thread, array, format, extent, 1, flags))

SIMCUDA_RUNTIME(cudaMallocMipmappedArray,
                (cudaMipmappedArray_t * array, const cudaChannelFormatDesc* format,
                 cudaExtent extent, unsigned int level_count, unsigned int flags),
                (extent.width, extent.height, extent.depth, level_count, flags),
                make_mipmap(thread, array, format, extent, level_count, flags))

SIMCUDA_RUNTIME(cudaGetMipmappedArrayLevel,
                (cudaArray_t * array, cudaMipmappedArray_const_t mipmap, unsigned int level),
                (number(mipmap), level), level_of(array, mipmap, level))

SIMCUDA_RUNTIME(cudaFreeArray, (cudaArray_t array), (number(array)),
                array == nullptr ? cudaSuccess : drop_array(thread, number(array)))

SIMCUDA_RUNTIME(cudaFreeMipmappedArray, (cudaMipmappedArray_t array), (number(array)),
                drop_mipmap(thread, array))

SIMCUDA_EXPORT cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* format, cudaExtent* extent,
                                            unsigned int* flags, cudaArray_t array) {
  return runtime_call<"cudaArrayGetInfo">({number(array)}, [&](ThreadState&) {
    const std::optional<Array> found = find_array(number(array));
    if (!found) return cudaErrorInvalidResourceHandle;
    if (format != nullptr) *format = found->format;
    if (extent != nullptr) *extent = found->extent;
    if (flags != nullptr) *flags = found->flags;
    return cudaSuccess;
  });
}

// As the header's: what a GPU answers for arrays that are neither deferred nor sparse. None is
// here.
SIMCUDA_RUNTIME(cudaArrayGetMemoryRequirements,
                (cudaArrayMemoryRequirements* /*what*/, cudaArray_t array, int /*device*/),
                (number(array)), cudaErrorInvalidValue)
SIMCUDA_RUNTIME(cudaArrayGetSparseProperties,
                (cudaArraySparseProperties* /*what*/, cudaArray_t array), (number(array)),
                cudaErrorInvalidValue)

SIMCUDA_EXPORT cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                           cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

SIMCUDA_EXPORT cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* format,
                                              cudaArray_const_t array) {
  return runtime_call<"cudaGetChannelDesc">({number(array)}, [&](ThreadState&) {
    const std::optional<Array> found = find_array(number(array));
    if (format == nullptr || !found) return cudaErrorInvalidValue;
    *format = found->format;
    return cudaSuccess;
  });
}

SIMCUDA_EXPORT cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x_bytes, size_t y,
                                               const void* from, size_t pitch_bytes,
                                               size_t width_bytes, size_t height,
                                               cudaMemcpyKind kind) {
  const std::optional<Array> array = find_array(number(to));
  void* place = nullptr;
  const cudaError_t error = find_part(array, {x_bytes, y, width_bytes, height}, &place);
  if (error != cudaSuccess) return error;
  return cudaMemcpy2D(place, array->pitch_bytes, from, pitch_bytes, width_bytes, height, kind);
}

SIMCUDA_EXPORT cudaError_t cudaMemcpy2DFromArray(void* to, size_t pitch_bytes,
                                                 cudaArray_const_t from, size_t x_bytes, size_t y,
                                                 size_t width_bytes, size_t height,
                                                 cudaMemcpyKind kind) {
  const std::optional<Array> array = find_array(number(from));
  void* place = nullptr;
  const cudaError_t error = find_part(array, {x_bytes, y, width_bytes, height}, &place);
  if (error != cudaSuccess) return error;
  return cudaMemcpy2D(to, pitch_bytes, place, array->pitch_bytes, width_bytes, height, kind);
}

SIMCUDA_EXPORT cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x_bytes, size_t y,
                                             const void* from, size_t size_bytes,
                                             cudaMemcpyKind kind) {
  void* place = nullptr;
  const cudaError_t error = find_bytes(to, x_bytes, y, size_bytes, &place);
  return error != cudaSuccess ? error : cudaMemcpy(place, from, size_bytes, kind);
}

SIMCUDA_EXPORT cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x_bytes,
                                               size_t y, size_t size_bytes, cudaMemcpyKind kind) {
  void* place = nullptr;
  const cudaError_t error = find_bytes(from, x_bytes, y, size_bytes, &place);
  return error != cudaSuccess ? error : cudaMemcpy(to, place, size_bytes, kind);
}

SIMCUDA_DRIVER(cuArrayCreate, (CUarray * array, const CUDA_ARRAY_DESCRIPTOR* what), (),
               what == nullptr ? cudaErrorInvalidValue
                               : create_described(thread, array, what->Format, what->NumChannels,
                                                  {what->Width, what->Height, 0}, 0))
SIMCUDA_DRIVER(cuArray3DCreate, (CUarray * array, const CUDA_ARRAY3D_DESCRIPTOR* what), (),
               what == nullptr
                   ? cudaErrorInvalidValue
                   : create_described(thread, array, what->Format, what->NumChannels,
                                      {what->Width, what->Height, what->Depth}, what->Flags))
SIMCUDA_DRIVER(cuArrayDestroy, (CUarray array), (number(array)), drop_array(thread, number(array)))

SIMCUDA_EXPORT CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR* what, CUarray array) {
  return driver_call<"cuArrayGetDescriptor">({number(array)}, [&](ThreadState&) {
    const std::optional<Array> found = find_array(number(array));
    if (what == nullptr || !found) return CUDA_ERROR_INVALID_VALUE;
    what->Width = found->extent.width;
    what->Height = found->extent.height;
    what->Format = driver_format(found->format);
    what->NumChannels = static_cast<unsigned>(found->element_bytes * 8 /
                                              static_cast<std::uint64_t>(found->format.x));
    return CUDA_SUCCESS;
  });
}

}  // namespace simcuda
