// What calls need of contexts, by the function's name. In: names. Out: which functions of the
// runtime make the device's primary context current, and which of the driver's fail without one.
#pragma once

#include <string_view>

#include "harness/simcuda/shim/one_of.h"

namespace simcuda {

// The runtime's questions about devices, versions, errors and pointers, and its pools, as CCCL's
// tests of them have it. All its other functions make the primary context current; cudaSetDevice
// does so itself.
constexpr bool runtime_makes_context(std::string_view name) {
  return !name.starts_with("cudaMemPool") &&
         !is_one_of(name, "cudaDeviceCanAccessPeer", "cudaDeviceGetAttribute",
                    "cudaDeviceGetByPCIBusId", "cudaDeviceGetDefaultMemPool",
                    "cudaDeviceGetMemPool", "cudaDeviceGetP2PAttribute", "cudaDeviceGetPCIBusId",
                    "cudaDeviceReset", "cudaDeviceSetMemPool", "cudaDriverGetVersion",
                    "cudaGetDevice", "cudaGetDeviceCount", "cudaGetDeviceFlags",
                    "cudaGetDeviceProperties", "cudaGetDriverEntryPoint",
                    "cudaGetDriverEntryPointByVersion", "cudaGetLastError", "cudaInitDevice",
                    "cudaMemGetDefaultMemPool", "cudaMemGetMemPool", "cudaMemSetMemPool",
                    "cudaPeekAtLastError", "cudaPointerGetAttributes", "cudaRuntimeGetVersion",
                    "cudaSetDevice", "cudaSetDeviceFlags");
}

// What works on the current context: its memory, what is made in it, itself. Handles bring their
// context along, and so do devices: memory of pools is taken in a stream.
constexpr bool driver_needs_context(std::string_view name) {
  if (name == "cuMemAllocAsync" || name == "cuMemAllocFromPoolAsync") return false;
  return name.starts_with("cuMemAlloc") || name.starts_with("cuMemcpy") ||
         name.starts_with("cuMemset") || name.starts_with("cuStreamCreate") ||
         name.starts_with("cuModuleLoad") ||
         is_one_of(name, "cuCtxGetDevice", "cuCtxSynchronize", "cuCtxGetFlags", "cuCtxGetLimit",
                   "cuCtxSetLimit", "cuCtxSetFlags", "cuMemGetInfo", "cuMemFreeHost",
                   "cuEventCreate", "cuLibraryGetModule", "cuMemGetAddressRange",
                   "cuMemHostRegister", "cuMemHostUnregister", "cuMemHostAlloc");
}

// Before cuInit nothing else works.
constexpr bool driver_needs_init(std::string_view name) {
  return !is_one_of(name, "cuInit", "cuDriverGetVersion", "cuGetProcAddress", "cuGetExportTable",
                    "cuGetErrorName", "cuGetErrorString");
}

}  // namespace simcuda
