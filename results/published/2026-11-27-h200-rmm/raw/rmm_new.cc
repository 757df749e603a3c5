// rmm_new.cc: RMM 26.06's pool and later
#include <cuda_runtime_api.h>
#include <sys/types.h>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

static auto& pool() {
  static auto* const made =
      new rmm::mr::pool_memory_resource(rmm::mr::cuda_memory_resource{}, std::size_t(1) << 30);
  return *made;
}

extern "C" void* my_malloc(ssize_t size_bytes, int, cudaStream_t stream) try {
  return pool().allocate(cuda::stream_ref(stream), std::size_t(size_bytes), 256);
} catch (...) {
  (void)cudaGetLastError();
  return nullptr;
}

extern "C" void my_free(void* pointer, ssize_t size_bytes, int, cudaStream_t stream) {
  if (pointer) pool().deallocate(cuda::stream_ref(stream), pointer, std::size_t(size_bytes), 256);
}
