// The smallest allocator that PyTorch and allocmark can both load: the interface of
// torch.cuda.memory.CUDAPluggableAllocator, in C, over the driver's stream-ordered pool.
//
//   cc -shared -fPIC -I$CUDA_HOME/include pluggable_example.c -o example.so -L$CUDA_HOME/lib64 -lcudart
//   allocmark conformance ./example.so,my_malloc,my_free,trim:my_trim
//   allocmark run --workload gpt2_train_amp --allocator pluggable:./example.so,my_malloc,my_free,trim:my_trim,as:example
//
// Link the shared CUDA runtime, so that allocmark's simulated one can take its place. Both functions
// can be called from any thread.
#include <cuda_runtime_api.h>
#include <sys/types.h>

// `size` bytes that work on `stream` may use from here on; null where there is no memory. The
// device is the current one.
void* my_malloc(ssize_t size, int device, cudaStream_t stream) {
  (void)device;
  void* pointer = NULL;
  if (cudaMallocAsync(&pointer, (size_t)size, stream) != cudaSuccess) {
    (void)cudaGetLastError();  // else PyTorch takes it for an error of its next kernel
    return NULL;
  }
  return pointer;
}

// Takes the block back; work queued on `stream` before may still be using it.
void my_free(void* pointer, ssize_t size, int device, cudaStream_t stream) {
  (void)size;
  (void)device;
  (void)cudaFreeAsync(pointer, stream);
}

// Optional, named by allocmark's config key trim: gives back what is cached.
void my_trim(void) {
  int device = 0;
  cudaMemPool_t pool = NULL;
  if (cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetDefaultMemPool(&pool, device) == cudaSuccess) {
    (void)cudaMemPoolTrimTo(pool, 0);
  }
}
