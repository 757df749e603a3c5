// See node_work.h.
#include "harness/simcuda/shim/node_work.h"

#include <optional>
#include <string>

#include "harness/simcuda/shim/images.h"
#include "harness/simcuda/shim/kernel_models.h"
#include "harness/simcuda/shim/memory_copy.h"

namespace simcuda {
namespace {

// One side of a copy as the driver says it.
struct DriverSide {
  CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
  void* host = nullptr;
  CUdeviceptr device = 0;
};
DriverSide driver_side(cudaArray_const_t array, const cudaPitchedPtr& pointer, CUmemorytype type) {
  if (array != nullptr) return {.type = CU_MEMORYTYPE_ARRAY};
  if (type == CU_MEMORYTYPE_HOST) return {.type = type, .host = pointer.ptr};
  return {.type = type, .device = number(pointer.ptr)};
}

void* runtime_pointer(CUmemorytype type, const void* host, CUdeviceptr device) {
  return type == CU_MEMORYTYPE_HOST ? const_cast<void*>(host) : reinterpret_cast<void*>(device);
}

cudaMemcpyKind runtime_kind(CUmemorytype to, CUmemorytype from) {
  if (to == CU_MEMORYTYPE_UNIFIED || from == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
  if (to == CU_MEMORYTYPE_HOST) {
    return from == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyDeviceToHost;
  }
  return from == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice;
}

}  // namespace

MadeWork node_work(ThreadState& thread, const cudaKernelNodeParams* parameters) {
  if (parameters == nullptr) return {cudaErrorInvalidValue};
  const std::string name = registered_kernel_name(parameters->func);
  return name.empty() ? MadeWork{cudaErrorInvalidDeviceFunction}
                      : kernel_work(thread, name, parameters->kernelParams);
}

MadeWork node_work(ThreadState& thread, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return {cudaErrorInvalidValue};
  const void* const handle = parameters->func != nullptr
                                 ? static_cast<const void*>(parameters->func)
                                 : static_cast<const void*>(parameters->kern);
  const std::optional<LoadedKernel> kernel = kernel_of(handle);
  return kernel ? kernel_work(thread, kernel->facts.name, parameters->kernelParams)
                : MadeWork{cudaErrorInvalidResourceHandle};
}

MadeWork node_work(ThreadState& thread, const CUDA_MEMCPY3D* parameters) {
  return parameters == nullptr ? MadeWork{cudaErrorInvalidValue} : copy_work(thread, *parameters);
}

MadeWork node_work(ThreadState& thread, const cudaMemcpy3DParms* parameters) {
  if (parameters == nullptr) return {cudaErrorInvalidValue};
  if (parameters->kind < cudaMemcpyHostToHost || parameters->kind > cudaMemcpyDefault) {
    return {cudaErrorInvalidMemcpyDirection};
  }
  return copy_work(thread, driver_copy(*parameters));
}

MadeWork node_work(ThreadState& /*thread*/, const cudaMemsetParams* parameters) {
  if (parameters == nullptr) return {cudaErrorInvalidValue};
  const std::size_t element_bytes = parameters->elementSize;
  if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4) {
    return {cudaErrorInvalidValue};
  }
  CopyShape shape{.to_pitch_bytes = parameters->pitch,
                  .from_pitch_bytes = parameters->pitch,
                  .width_bytes = parameters->width * element_bytes,
                  .row_count = parameters->height};
  if (shape.row_count <= 1) shape.to_pitch_bytes = shape.width_bytes;
  if (parameters->dst == nullptr || shape.width_bytes == 0 || shape.row_count == 0 ||
      shape.to_pitch_bytes < shape.width_bytes) {
    return {cudaErrorInvalidValue};
  }
  return fill_work(parameters->dst, {.value = parameters->value, .element_bytes = element_bytes},
                   shape);
}

MadeWork node_work(ThreadState& /*thread*/, const cudaHostNodeParams* parameters) {
  if (parameters == nullptr || parameters->fn == nullptr) return {cudaErrorInvalidValue};
  return {.work = {.kind = NodeKind::HostFunction,
                   .type = cudaGraphNodeTypeHost,
                   .function = parameters->fn,
                   .data = parameters->userData}};
}

MadeWork row_work(void* to, const void* from, std::size_t size_bytes, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return {cudaErrorInvalidMemcpyDirection};
  }
  if (to == nullptr || from == nullptr || size_bytes == 0) return {cudaErrorInvalidValue};
  return copy_work(to, from, line(size_bytes), kind);
}

MadeWork event_work(cudaEvent_t event, cudaGraphNodeType type) {
  SimEvent* const found = resolve_event(event);
  if (found == nullptr) return {cudaErrorInvalidResourceHandle};
  return {.work = event_node(*found, type)};
}

void give(const NodeWork& work, CUDA_MEMCPY3D* parameters) {
  *parameters = std::get<CUDA_MEMCPY3D>(work.parameters);
}

void give(const NodeWork& work, cudaMemcpy3DParms* parameters) {
  const auto& copy = std::get<CUDA_MEMCPY3D>(work.parameters);
  *parameters = {};
  parameters->srcPos = {.x = copy.srcXInBytes, .y = copy.srcY, .z = copy.srcZ};
  parameters->srcPtr = {.ptr = runtime_pointer(copy.srcMemoryType, copy.srcHost, copy.srcDevice),
                        .pitch = copy.srcPitch,
                        .xsize = copy.WidthInBytes,
                        .ysize = copy.srcHeight};
  parameters->dstPos = {.x = copy.dstXInBytes, .y = copy.dstY, .z = copy.dstZ};
  parameters->dstPtr = {.ptr = runtime_pointer(copy.dstMemoryType, copy.dstHost, copy.dstDevice),
                        .pitch = copy.dstPitch,
                        .xsize = copy.WidthInBytes,
                        .ysize = copy.dstHeight};
  parameters->extent = {.width = copy.WidthInBytes, .height = copy.Height, .depth = copy.Depth};
  parameters->kind = runtime_kind(copy.dstMemoryType, copy.srcMemoryType);
}

void give(const NodeWork& work, cudaMemsetParams* parameters) {
  *parameters = std::get<cudaMemsetParams>(work.parameters);
}

void give(const NodeWork& work, cudaHostNodeParams* parameters) {
  *parameters = {.fn = work.function, .userData = work.data};
}

void give(const NodeWork& work, cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(work.event);
}

CUDA_MEMCPY3D driver_copy(const cudaMemcpy3DParms& copy) {
  const bool to_host = copy.kind == cudaMemcpyHostToHost || copy.kind == cudaMemcpyDeviceToHost;
  const bool from_host = copy.kind == cudaMemcpyHostToHost || copy.kind == cudaMemcpyHostToDevice;
  const CUmemorytype device =
      copy.kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
  const DriverSide from =
      driver_side(copy.srcArray, copy.srcPtr, from_host ? CU_MEMORYTYPE_HOST : device);
  const DriverSide to =
      driver_side(copy.dstArray, copy.dstPtr, to_host ? CU_MEMORYTYPE_HOST : device);
  CUDA_MEMCPY3D told{};
  told.srcXInBytes = copy.srcPos.x;
  told.srcY = copy.srcPos.y;
  told.srcZ = copy.srcPos.z;
  told.srcMemoryType = from.type;
  told.srcHost = from.host;
  told.srcDevice = from.device;
  told.srcPitch = copy.srcPtr.pitch;
  told.srcHeight = copy.srcPtr.ysize;
  told.dstXInBytes = copy.dstPos.x;
  told.dstY = copy.dstPos.y;
  told.dstZ = copy.dstPos.z;
  told.dstMemoryType = to.type;
  told.dstHost = to.host;
  told.dstDevice = to.device;
  told.dstPitch = copy.dstPtr.pitch;
  told.dstHeight = copy.dstPtr.ysize;
  told.WidthInBytes = copy.extent.width;
  told.Height = copy.extent.height;
  told.Depth = copy.extent.depth;
  return told;
}

}  // namespace simcuda
