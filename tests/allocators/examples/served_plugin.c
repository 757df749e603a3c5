// served_*: a plugin whose memory comes from another library, which is linked with the static CUDA
// runtime, as RMM's librmm.so is from 26.06 on. Its own calls are of the shared one.
#include <cuda_runtime_api.h>
#include <sys/types.h>

void* my_malloc(ssize_t size, int device, cudaStream_t stream);
void my_free(void* pointer, ssize_t size, int device, cudaStream_t stream);

void* served_malloc(ssize_t size, int device, cudaStream_t stream) {
  (void)cudaSetDevice(device);
  return my_malloc(size, device, stream);
}

void served_free(void* pointer, ssize_t size, int device, cudaStream_t stream) {
  my_free(pointer, size, device, stream);
}

// carried_*: beside the same library, memory of the shared runtime, as RMM's is until 26.04: like
// its pool, it wants 1 GiB first.
void* carried_malloc(ssize_t size, int device, cudaStream_t stream) {
  static void* pool = NULL;
  void* pointer = NULL;
  (void)stream;
  (void)cudaSetDevice(device);
  if (pool == NULL && cudaMalloc(&pool, (size_t)1 << 30) != cudaSuccess) return NULL;
  return cudaMalloc(&pointer, (size_t)size) == cudaSuccess ? pointer : NULL;
}

void carried_free(void* pointer, ssize_t size, int device, cudaStream_t stream) {
  (void)size, (void)device, (void)stream;
  (void)cudaFree(pointer);
}
