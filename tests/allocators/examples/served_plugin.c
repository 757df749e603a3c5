// A plugin whose memory comes from another library, which is linked with the static CUDA runtime,
// as RMM's librmm.so is from 26.06 on. Its own calls are of the shared one.
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
