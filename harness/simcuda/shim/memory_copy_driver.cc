// The driver's copies and fills. In: what programs pass; stream 0 is as for the runtime. Out: what
// memory_copy.h answers. Copies that concern arrays are not among them.
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "harness/simcuda/shim/contexts.h"
#include "harness/simcuda/shim/memory_copy.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

void* plain(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// The address of one side of a copy, and whether it is the host's.
struct Side {
  unsigned char* address = nullptr;
  bool is_host = false;
  bool is_known = true;  // false: an array, or no kind of memory
};
Side side_of(CUmemorytype type, const void* host, CUdeviceptr device) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      return {.address = static_cast<unsigned char*>(const_cast<void*>(host)), .is_host = true};
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
      return {.address = reinterpret_cast<unsigned char*>(device)};
    default:
      return {.is_known = false};
  }
}

cudaMemcpyKind direction(const Side& to, const Side& from) {
  return !to.is_host && !from.is_host ? cudaMemcpyDefault
         : to.is_host                 ? (from.is_host ? cudaMemcpyHostToHost : cudaMemcpyDefault)
                                      : cudaMemcpyHostToDevice;
}

cudaError_t refuse_arrays(ThreadState& thread) {
  return explain(thread, cudaErrorNotSupported, "simcuda does not copy to and from arrays");
}

// Rows without a pitch of their own follow each other.
std::size_t pitch_of(std::size_t pitch_bytes, std::size_t width_bytes) {
  return pitch_bytes == 0 ? width_bytes : pitch_bytes;
}

cudaError_t copy_2d(ThreadState& thread, const CUDA_MEMCPY2D* what, cudaStream_t stream,
                    Wait wait) {
  if (what == nullptr) return cudaErrorInvalidValue;
  Side to = side_of(what->dstMemoryType, what->dstHost, what->dstDevice);
  Side from = side_of(what->srcMemoryType, what->srcHost, what->srcDevice);
  if (!to.is_known || !from.is_known) return refuse_arrays(thread);
  const CopyShape shape{.to_pitch_bytes = pitch_of(what->dstPitch, what->WidthInBytes),
                        .from_pitch_bytes = pitch_of(what->srcPitch, what->WidthInBytes),
                        .width_bytes = what->WidthInBytes,
                        .row_count = what->Height};
  return copy_memory(thread, to.address + what->dstY * shape.to_pitch_bytes + what->dstXInBytes,
                     from.address + what->srcY * shape.from_pitch_bytes + what->srcXInBytes, shape,
                     direction(to, from), stream, wait);
}

// Slices that follow each other at equal distances.
struct Box {
  unsigned char* to = nullptr;
  const unsigned char* from = nullptr;
  CopyShape shape;
  std::size_t to_slice_bytes = 0;
  std::size_t from_slice_bytes = 0;
  cudaMemcpyKind kind = cudaMemcpyDefault;

  bool operator==(const Box&) const = default;
};

// Empty where it concerns arrays.
std::optional<Box> box_of(const CUDA_MEMCPY3D& what) {
  const Side to = side_of(what.dstMemoryType, what.dstHost, what.dstDevice);
  const Side from = side_of(what.srcMemoryType, what.srcHost, what.srcDevice);
  if (!to.is_known || !from.is_known) return std::nullopt;
  const std::size_t to_pitch_bytes = pitch_of(what.dstPitch, what.WidthInBytes);
  const std::size_t from_pitch_bytes = pitch_of(what.srcPitch, what.WidthInBytes);
  const std::size_t to_rows = what.dstHeight == 0 ? what.Height : what.dstHeight;
  const std::size_t from_rows = what.srcHeight == 0 ? what.Height : what.srcHeight;
  return Box{
      .to = to.address + (what.dstZ * to_rows + what.dstY) * to_pitch_bytes + what.dstXInBytes,
      .from =
          from.address + (what.srcZ * from_rows + what.srcY) * from_pitch_bytes + what.srcXInBytes,
      .shape = {.to_pitch_bytes = to_pitch_bytes,
                .from_pitch_bytes = from_pitch_bytes,
                .width_bytes = what.WidthInBytes,
                .row_count = what.Height},
      .to_slice_bytes = to_rows * to_pitch_bytes,
      .from_slice_bytes = from_rows * from_pitch_bytes,
      .kind = direction(to, from)};
}

// `count` elements a row.
cudaError_t fill_rows(ThreadState& thread, CUdeviceptr address, FillValue value, CopyShape shape,
                      cudaStream_t stream) {
  if (shape.width_bytes > (std::size_t{1} << 46)) return cudaErrorInvalidValue;
  shape.width_bytes *= value.element_bytes;
  if (shape.row_count <= 1) shape.to_pitch_bytes = shape.width_bytes;
  return fill_memory(thread, plain(address), value, shape, stream);
}

}  // namespace

cudaError_t copy_box(ThreadState& thread, const CUDA_MEMCPY3D* what, cudaStream_t stream,
                     Wait wait) {
  if (what == nullptr) return cudaErrorInvalidValue;
  const std::optional<Box> box = box_of(*what);
  if (!box) return refuse_arrays(thread);
  for (std::size_t z = 0; z < what->Depth; ++z) {
    const cudaError_t error =
        copy_memory(thread, box->to + z * box->to_slice_bytes,
                    box->from + z * box->from_slice_bytes, box->shape, box->kind, stream, wait);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

MadeWork copy_work(ThreadState& thread, const CUDA_MEMCPY3D& what) {
  const std::optional<Box> box = box_of(what);
  if (!box) return {refuse_arrays(thread)};
  const CopyShape& shape = box->shape;
  if (box->to == nullptr || box->from == nullptr || shape.width_bytes == 0 ||
      shape.row_count == 0 || what.Depth == 0 || shape.to_pitch_bytes < shape.width_bytes ||
      shape.from_pitch_bytes < shape.width_bytes) {
    return {cudaErrorInvalidValue};
  }
  MadeWork made;
  std::vector<std::function<NodeRun()>> slices;
  for (std::size_t z = 0; z < what.Depth; ++z) {
    made = copy_work(box->to + z * box->to_slice_bytes, box->from + z * box->from_slice_bytes,
                     shape, box->kind);
    if (made.error != cudaSuccess) return made;
    slices.push_back(std::move(made.work.run));
  }
  made.work.parameters = what;
  made.work.run = [slices = std::move(slices)] {
    NodeRun all;
    for (const std::function<NodeRun()>& slice : slices) {
      const NodeRun one = slice();
      if (one.error != cudaSuccess) return one;
      all.duration_ns += one.duration_ns;
    }
    return all;
  };
  return made;
}

bool copy_may_follow(const CUDA_MEMCPY3D& before, const CUDA_MEMCPY3D& after) {
  const std::optional<Box> old = box_of(before);
  const std::optional<Box> now = box_of(after);
  if (!old || !now || before.srcMemoryType != after.srcMemoryType ||
      before.dstMemoryType != after.dstMemoryType) {
    return false;
  }
  const auto is_row = [](const CUDA_MEMCPY3D& copy) { return copy.Height <= 1 && copy.Depth <= 1; };
  if (is_row(before) && is_row(after)) {
    return device_of_address(number(old->to)) == device_of_address(number(now->to)) &&
           device_of_address(number(old->from)) == device_of_address(number(now->from));
  }
  return *old == *now;
}

// ---- copies

SIMCUDA_MOVES(DRIVER, cu, Memcpy, (CUdeviceptr to, CUdeviceptr from, size_t size_bytes),
              (to, from, size_bytes),
              copy_memory(thread, plain(to), plain(from), line(size_bytes), cudaMemcpyDefault,
                          stream, wait))
// In one direction.
#define SIMCUDA_COPIES(direction, To, From, kind)                                         \
  SIMCUDA_MOVES(DRIVER, cu, Memcpy##direction, (To to, From from, size_t size_bytes),     \
                (number(to), number(from), size_bytes),                                   \
                copy_memory(thread, as_runtime<void*>(to), as_runtime<const void*>(from), \
                            line(size_bytes), kind, stream, wait))
SIMCUDA_COPIES(HtoD, CUdeviceptr, const void*, cudaMemcpyHostToDevice)
SIMCUDA_COPIES(DtoH, void*, CUdeviceptr, cudaMemcpyDeviceToHost)
SIMCUDA_COPIES(DtoD, CUdeviceptr, CUdeviceptr, cudaMemcpyDeviceToDevice)
SIMCUDA_MOVES(DRIVER, cu, MemcpyPeer,
              (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
               size_t size_bytes),
              (to, from, size_bytes),
              copy_between(thread, plain(to), device_of(to_context), plain(from),
                           device_of(from_context), size_bytes, stream, wait))
SIMCUDA_MOVES(DRIVER, cu, Memcpy2D, (const CUDA_MEMCPY2D* what), (number(what)),
              copy_2d(thread, what, stream, wait))
SIMCUDA_DRIVER(cuMemcpy2DUnaligned, (const CUDA_MEMCPY2D* what), (number(what)),
               copy_2d(thread, what, nullptr, Wait::ForCopy))
SIMCUDA_MOVES(DRIVER, cu, Memcpy3D, (const CUDA_MEMCPY3D* what), (number(what)),
              copy_box(thread, what, stream, wait))

// ---- fills: `count` elements, or rows of them

#define SIMCUDA_FILLS(bits, Value)                                                             \
  SIMCUDA_MOVES(DRIVER, cu, MemsetD##bits, (CUdeviceptr to, Value value, size_t count),        \
                (to, value, count),                                                            \
                fill_rows(thread, to, {value, sizeof(Value)}, {.width_bytes = count}, stream)) \
  SIMCUDA_MOVES(                                                                               \
      DRIVER, cu, MemsetD2D##bits,                                                             \
      (CUdeviceptr to, size_t pitch_bytes, Value value, size_t width, size_t height),          \
      (to, pitch_bytes, value, width, height),                                                 \
      fill_rows(thread, to, {value, sizeof(Value)}, {pitch_bytes, 0, width, height}, stream))
SIMCUDA_FILLS(8, unsigned char)
SIMCUDA_FILLS(16, unsigned short)
SIMCUDA_FILLS(32, unsigned int)

// A value of one element that a stream writes.
SIMCUDA_DRIVER(cuStreamWriteValue32,
               (CUstream stream, CUdeviceptr to, cuuint32_t value, unsigned int flags),
               (number(stream), to, value, flags),
               fill_rows(thread, to, {value, 4}, {.width_bytes = 1}, stream))

}  // namespace simcuda
