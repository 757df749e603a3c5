// Preloaded before simcuda, so that a program whose kernels are unknown to it runs: launches do nothing. Flows in: calls of
// libcudart. Flows out: success. What a program reads back decides where it branches: a single byte is 1 (checks pass),
// four bytes are RECORD_COUNT where that is set (how many elements a mask chose). Neither times nor checks anything.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { kToHost = 2, kThreads = 2048, kCapability = 90 };

int cudaLaunchKernel() { return 0; }
int cudaLaunchKernelExC() { return 0; }
int cudaLaunchCooperativeKernel() { return 0; }
int __cudaLaunchKernel() { return 0; }
int cudaFuncSetAttribute() { return 0; }
int cudaFuncSetCacheConfig() { return 0; }

int __cudaGetKernel(void** kernel, const void* function) {
  *kernel = (void*)function;
  return 0;
}

int cudaGetFuncBySymbol(void** kernel, const void* function) { return __cudaGetKernel(kernel, function); }

// The head of cudaFuncAttributes.
struct Attributes {
  size_t shared_bytes, constant_bytes, local_bytes;
  int threads_max, registers, ptx, binary, caches, dynamic_bytes_max, carveout;
};

int cudaFuncGetAttributes(struct Attributes* out, const void* function) {
  memset(out, 0, sizeof *out);
  out->threads_max = 1024;
  out->registers = 32;
  out->ptx = out->binary = kCapability;
  out->dynamic_bytes_max = 49152;
  return 0;
}

// As if registers and shared memory never were the limit.
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* count, const void* function, int threads, size_t shared_bytes) {
  *count = kThreads / (threads > 0 ? threads : 256);
  return 0;
}

int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* count, const void* function, int threads, size_t shared_bytes,
                                                           unsigned flags) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(count, function, threads, shared_bytes);
}

int cudaMemcpyAsync(void* to, const void* from, size_t size_bytes, int kind, void* stream) {
  typedef int (*Copy)(void*, const void*, size_t, int, void*);
  static Copy copy;
  if (!copy) copy = (Copy)dlsym(dlopen(getenv("RECORD_SIMCUDA"), RTLD_NOW | RTLD_NOLOAD), "cudaMemcpyAsync");
  const int status = copy(to, from, size_bytes, kind, stream);
  const char* const count = getenv("RECORD_COUNT");
  if (kind == kToHost && size_bytes == 1) *(char*)to = 1;
  if (kind == kToHost && size_bytes == 4 && count) *(int*)to = atoi(count);
  return status;
}
