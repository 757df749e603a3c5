/* Memory code under test, and a fault that no GPU gives on demand. Argument: how many devices there
 * must be. */
#include <allocmark/simcu.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                      \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      return 1;                                               \
    }                                                         \
  } while (0)

typedef int (*FailCalls)(const char*, uint64_t, uint64_t, int);

int main(int argc, char** argv) {
  int count = 0;
  CHECK(argc == 2);
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == atoi(argv[1]));
  FailCalls fail_calls = (FailCalls)dlsym(RTLD_DEFAULT, "simcu_fail_calls");
  CHECK(fail_calls != NULL);
  void* block = NULL;
  CHECK(cudaMalloc(&block, 1 << 20) == cudaSuccess);
  CHECK(cudaFree(block) == cudaSuccess);
  CHECK(fail_calls("cudaMalloc", 1, 1, cudaErrorMemoryAllocation) == 0);
  CHECK(cudaMalloc(&block, 1 << 20) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&block, 1 << 20) == cudaSuccess);
  return 0;
}
