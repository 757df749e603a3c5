// libcudart.so.12 for libraries that were built with CUDA 12, in a process whose runtime is simcuda
// of CUDA 13: one simulated device behind both names. Calls of the older interface flow in; what
// changed between the two is translated, everything else is a jump to the newer library.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Functions that are the same in both.
#define SAME_FUNCTIONS(X)             \
  X(cudaDeviceCanAccessPeer)          \
  X(cudaDeviceDisablePeerAccess)      \
  X(cudaDeviceEnablePeerAccess)       \
  X(cudaDeviceGetDefaultMemPool)      \
  X(cudaDeviceGetGraphMemAttribute)   \
  X(cudaDeviceGetStreamPriorityRange) \
  X(cudaDeviceGraphMemTrim)           \
  X(cudaDeviceSetGraphMemAttribute)   \
  X(cudaDeviceSynchronize)            \
  X(cudaDriverGetVersion)             \
  X(cudaEventCreateWithFlags)         \
  X(cudaEventDestroy)                 \
  X(cudaEventElapsedTime)             \
  X(cudaEventQuery)                   \
  X(cudaEventRecord)                  \
  X(cudaEventRecordWithFlags)         \
  X(cudaEventSynchronize)             \
  X(cudaFree)                         \
  X(cudaFreeAsync)                    \
  X(cudaGetDevice)                    \
  X(cudaGetDeviceCount)               \
  X(cudaGetDriverEntryPointByVersion) \
  X(cudaGetErrorName)                 \
  X(cudaGetErrorString)               \
  X(cudaGetLastError)                 \
  X(cudaGraphAddEmptyNode)            \
  X(cudaGraphCreate)                  \
  X(cudaGraphDebugDotPrint)           \
  X(cudaGraphDestroy)                 \
  X(cudaGraphExecDestroy)             \
  X(cudaGraphExecUpdate)              \
  X(cudaGraphGetNodes)                \
  X(cudaGraphGetRootNodes)            \
  X(cudaGraphInstantiate)             \
  X(cudaGraphInstantiateWithFlags)    \
  X(cudaGraphInstantiateWithParams)   \
  X(cudaGraphLaunch)                  \
  X(cudaGraphNodeGetType)             \
  X(cudaGraphUpload)                  \
  X(cudaIpcCloseMemHandle)            \
  X(cudaIpcGetMemHandle)              \
  X(cudaIpcOpenMemHandle)             \
  X(cudaMalloc)                       \
  X(cudaMallocAsync)                  \
  X(cudaMemGetInfo)                   \
  X(cudaMemPoolGetAttribute)          \
  X(cudaMemPoolSetAccess)             \
  X(cudaMemPoolSetAttribute)          \
  X(cudaMemPoolTrimTo)                \
  X(cudaMemcpy)                       \
  X(cudaMemcpyAsync)                  \
  X(cudaMemcpyPeerAsync)              \
  X(cudaPeekAtLastError)              \
  X(cudaSetDevice)                    \
  X(cudaStreamBeginCapture)           \
  X(cudaStreamCreateWithPriority)     \
  X(cudaStreamEndCapture)             \
  X(cudaStreamIsCapturing)            \
  X(cudaStreamQuery)                  \
  X(cudaStreamSynchronize)            \
  X(cudaStreamWaitEvent)              \
  X(cudaThreadExchangeStreamCaptureMode)

// Where each function of the newer library is; read by the jumps below.
#define SLOT(name) __attribute__((visibility("hidden"))) void* simcuda12_##name = nullptr;
extern "C" {
SAME_FUNCTIONS(SLOT)
}

// No argument is touched, so that the signature does not matter.
#define JUMP(name)                                                                           \
  asm(".text\n.globl " #name "\n.type " #name ",@function\n" #name ": jmp *simcuda12_" #name \
      "(%rip)\n.size " #name ",.-" #name "\n");
SAME_FUNCTIONS(JUMP)

namespace {

void* newer(const char* name) {
  static void* const library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr,
                 "simcuda: %s is not in this process; libcudart.so.12 of simcuda only works beside "
                 "its libcudart.so.13\n",
                 name);
    std::abort();
  }
  return found;
}

// A function whose declaration this file sees, as the newer library has it.
#define NEWER(name) reinterpret_cast<decltype(&name)>(newer(#name))

__attribute__((constructor)) void fill_slots() {
#define FILL(name) simcuda12_##name = newer(#name);
  SAME_FUNCTIONS(FILL)
}

// CUDA 13 took out members of cudaDeviceProp. Up to the processor count the two are alike; behind
// it, this is where CUDA 12 has the members that its libraries ask an allocator's device for.
constexpr std::size_t kAlikeBytes = offsetof(cudaDeviceProp, multiProcessorCount);
constexpr std::size_t kOlderBytes = 1032;
struct Moved {
  std::size_t older_offset;
  std::size_t newer_offset;
};
constexpr std::array kMoved = {Moved{388, offsetof(cudaDeviceProp, multiProcessorCount)},
                               Moved{584, offsetof(cudaDeviceProp, pciBusID)},
                               Moved{588, offsetof(cudaDeviceProp, pciDeviceID)},
                               Moved{592, offsetof(cudaDeviceProp, pciDomainID)},
                               Moved{604, offsetof(cudaDeviceProp, unifiedAddressing)},
                               Moved{616, offsetof(cudaDeviceProp, l2CacheSize)},
                               Moved{624, offsetof(cudaDeviceProp, maxThreadsPerMultiProcessor)}};

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceProperties_v2(void* older, int device) {
  cudaDeviceProp properties{};
  const cudaError_t error = NEWER(cudaGetDeviceProperties)(&properties, device);
  if (error != cudaSuccess) return error;
  std::memset(older, 0, kOlderBytes);
  std::memcpy(older, &properties, kAlikeBytes);
  for (const Moved& moved : kMoved) {
    std::memcpy(static_cast<char*>(older) + moved.older_offset,
                reinterpret_cast<const char*>(&properties) + moved.newer_offset, sizeof(int));
  }
  return error;
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  constexpr unsigned int kVersion = 12080;
  return NEWER(cudaGetDriverEntryPointByVersion)(symbol, function, kVersion, flags, result);
}

cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies, std::size_t* count) {
  return NEWER(cudaStreamGetCaptureInfo)(stream, status, id, graph, dependencies, nullptr, count);
}

cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies,
                                        const cudaGraphEdgeData** edges, std::size_t* count) {
  return NEWER(cudaStreamGetCaptureInfo)(stream, status, id, graph, dependencies, edges, count);
}

cudaError_t cudaGraphNodeGetDependencies12(
    cudaGraphNode_t node, cudaGraphNode_t* dependencies,
    std::size_t* count) __asm__("cudaGraphNodeGetDependencies");
cudaError_t cudaGraphNodeGetDependencies12(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                           std::size_t* count) {
  return NEWER(cudaGraphNodeGetDependencies)(node, dependencies, nullptr, count);
}

cudaError_t cudaStreamUpdateCaptureDependencies12(
    cudaStream_t stream, cudaGraphNode_t* dependencies, std::size_t count,
    unsigned int flags) __asm__("cudaStreamUpdateCaptureDependencies");
cudaError_t cudaStreamUpdateCaptureDependencies12(cudaStream_t stream,
                                                  cudaGraphNode_t* dependencies, std::size_t count,
                                                  unsigned int flags) {
  return NEWER(cudaStreamUpdateCaptureDependencies)(stream, dependencies, nullptr, count, flags);
}

}  // extern "C"
