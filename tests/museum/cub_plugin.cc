// cub::CachingDeviceAllocator behind PyTorch's pluggable interface, as somebody would write it: for
// 'allocmark conformance', which is to find the race of its threads. Its one device is the current
// one.
#define CCCL_IGNORE_DEPRECATED_API
#include <cuda_runtime.h>
#include <sys/types.h>

#include <cub/util_allocator.cuh>

namespace {

// Never destroyed: streams and events are gone when the process ends.
cub::CachingDeviceAllocator& allocator() {
  static auto* const made = new cub::CachingDeviceAllocator(8, 3, 10, std::size_t{16} << 30);
  return *made;
}

}  // namespace

extern "C" {

void* my_malloc(ssize_t size, int device, cudaStream_t stream) {
  void* pointer = nullptr;
  if (allocator().DeviceAllocate(device, &pointer, static_cast<std::size_t>(size), stream) !=
      cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return pointer;
}

void my_free(void* pointer, ssize_t /*size*/, int device, cudaStream_t /*stream*/) {
  if (pointer != nullptr) (void)allocator().DeviceFree(device, pointer);
}

void my_trim() { (void)allocator().FreeAllCached(); }

}  // extern "C"
