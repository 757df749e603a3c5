// What a GPU answers about arrays and takes for them, a line each, as sharing_program.cc does.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/types.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "tests/harness/simcuda/shim/say.h"

namespace {

std::size_t used_bytes() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  static_cast<void>(cudaMemGetInfo(&free_bytes, &total_bytes));
  return total_bytes - free_bytes;
}

struct Shape {
  std::size_t width, height, depth;
  int channels, bits;
  unsigned flags;
};

void say_shape(const Shape& shape) {
  const int bits = shape.bits;
  const cudaChannelFormatDesc format =
      cudaCreateChannelDesc(bits, shape.channels > 1 ? bits : 0, shape.channels > 2 ? bits : 0,
                            shape.channels > 2 ? bits : 0, cudaChannelFormatKindUnsigned);
  const cudaExtent extent{shape.width, shape.height, shape.depth};
  cudaArray_t first = nullptr;
  cudaArray_t second = nullptr;
  const std::size_t before = used_bytes();
  const int made = cudaMalloc3DArray(&first, &format, extent, shape.flags);
  const std::size_t one = used_bytes();
  static_cast<void>(cudaMalloc3DArray(&second, &format, extent, shape.flags));
  std::printf("array %zux%zux%zu of %d x %d bits, flags %u: %d, took %zd, then %zd", shape.width,
              shape.height, shape.depth, shape.channels, bits, shape.flags, made,
              static_cast<ssize_t>(one - before), static_cast<ssize_t>(used_bytes() - one));
  static_cast<void>(cudaFreeArray(first));
  static_cast<void>(cudaFreeArray(second));
  static_cast<void>(cudaGetLastError());
  std::printf(", left %zd\n", static_cast<ssize_t>(used_bytes() - before));
}

void say_many(std::size_t side) {
  const cudaChannelFormatDesc format =
      cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  cudaArray_t made[64] = {};
  const std::size_t before = used_bytes();
  for (cudaArray_t& array : made) {
    static_cast<void>(cudaMallocArray(&array, &format, side, side, 0));
  }
  std::printf("64 arrays %zux%zu: %zd\n", side, side, static_cast<ssize_t>(used_bytes() - before));
  for (cudaArray_t array : made) static_cast<void>(cudaFreeArray(array));
}

void say_array_copies(const cudaChannelFormatDesc& format) {
  cudaArray_t array = nullptr;
  static float host[4096];
  static float back[4096];
  for (int i = 0; i < 4096; ++i) host[i] = static_cast<float>(i);
  SAY(cudaMallocArray(&array, &format, 64, 64, 0));
  SAY(cudaMemcpy2DToArray(array, 0, 0, host, 256, 256, 64, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy2DFromArray(back, 256, array, 0, 0, 256, 64, cudaMemcpyDeviceToHost));
  std::printf("same: %d\n", std::memcmp(host, back, sizeof host) == 0);
  SAY(cudaMemcpy2DToArray(array, 4, 0, host, 256, 256, 64, cudaMemcpyHostToDevice));
  cudaChannelFormatDesc got{};
  cudaExtent extent{};
  unsigned flags = 0;
  SAY(cudaArrayGetInfo(&got, &extent, &flags, array));
  std::printf("%zu x %zu x %zu, bits %d\n", extent.width, extent.height, extent.depth, got.x);
  cudaArrayMemoryRequirements needs{};
  SAY(cudaArrayGetMemoryRequirements(&needs, array, 0));
  SAY(cudaFree(array));
  SAY(cudaFreeArray(array));
  SAY(cudaFreeArray(array));
  SAY(cudaFreeArray(nullptr));
}

void say_array_refusals(const cudaChannelFormatDesc& format) {
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc three =
      cudaCreateChannelDesc(32, 32, 32, 0, cudaChannelFormatKindFloat);
  const cudaChannelFormatDesc mixed =
      cudaCreateChannelDesc(32, 16, 0, 0, cudaChannelFormatKindFloat);
  SAY(cudaMallocArray(&array, &three, 4, 4, 0));
  SAY(cudaMallocArray(&array, &mixed, 4, 4, 0));
  SAY(cudaMallocArray(&array, &format, 0, 0, 0));
  SAY(cudaMallocArray(&array, &format, 0, 5, 0));
  SAY(cudaMallocArray(&array, &format, 200000, 2, 0));
  SAY(cudaMallocArray(nullptr, &format, 2, 2, 0));
  SAY(cudaMallocArray(&array, nullptr, 2, 2, 0));
  CUDA_ARRAY_DESCRIPTOR wanted{};
  wanted.Width = wanted.Height = 64;
  wanted.Format = CU_AD_FORMAT_FLOAT;
  wanted.NumChannels = 1;
  CUarray drivers = nullptr;
  SAY(cuArrayCreate(&drivers, &wanted));
  SAY(cuArrayGetDescriptor(&wanted, drivers));
  SAY(cuArrayDestroy(drivers));
  SAY(cuArrayDestroy(drivers));
  wanted.NumChannels = 3;
  SAY(cuArrayCreate(&drivers, &wanted));
}

void say_mipmaps(const cudaChannelFormatDesc& format) {
  cudaMipmappedArray_t mipmap = nullptr;
  cudaArray_t level = nullptr;
  const std::size_t before = used_bytes();
  SAY(cudaMallocMipmappedArray(&mipmap, &format, cudaExtent{1024, 1024, 0}, 11, 0));
  std::printf("took %zd\n", static_cast<ssize_t>(used_bytes() - before));
  SAY(cudaGetMipmappedArrayLevel(&level, mipmap, 10));
  SAY(cudaGetMipmappedArrayLevel(&level, mipmap, 11));
  SAY(cudaFreeMipmappedArray(mipmap));
}

void say_arrays() {
  SAY(cudaFree(nullptr));
  constexpr Shape kShapes[] = {{1, 0, 0, 1, 32, 0},
                               {64, 64, 0, 1, 8, 0},
                               {256, 256, 0, 1, 32, 0},
                               {1000, 1000, 0, 1, 32, 0},
                               {1024, 1024, 0, 4, 32, 0},
                               {4097, 4097, 0, 1, 32, 0},
                               {3000, 17, 0, 4, 16, 0},
                               {5000, 129, 0, 2, 32, 0},
                               {9, 65000, 0, 1, 8, 0},
                               {65536, 0, 0, 1, 32, 0},
                               {131072, 0, 0, 1, 32, 0},
                               {131073, 0, 0, 1, 32, 0},
                               {64, 64, 64, 1, 32, 0},
                               {100, 100, 100, 4, 32, 0},
                               {200, 120, 90, 4, 32, 0},
                               {333, 77, 55, 2, 32, 0},
                               {512, 512, 512, 1, 32, 0},
                               {64, 64, 6, 1, 32, cudaArrayCubemap},
                               {1024, 1024, 8, 4, 8, cudaArrayLayered},
                               {1000, 300, 5, 4, 16, cudaArrayLayered},
                               {1024, 1024, 0, 1, 16, 0},
                               {16384, 16384, 0, 2, 32, 0}};
  for (const Shape& shape : kShapes) say_shape(shape);
  for (const std::size_t side : {16, 64, 128, 300, 600}) say_many(side);
  const cudaChannelFormatDesc format =
      cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  say_mipmaps(format);
  say_array_copies(format);
  say_array_refusals(format);
}

}  // namespace

int main() {
  say_arrays();
  return 0;
}
