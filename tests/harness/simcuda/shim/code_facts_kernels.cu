// Compiled to a binary of device code, which code_facts_test.cc reads.
__device__ int counter = 7;
__device__ int zeros[100];
__constant__ float table[16];

extern "C" __global__ __launch_bounds__(256) void with_shared(int* to, char place, double) {
  __shared__ int shared[64];
  shared[threadIdx.x] = to[0];
  __syncthreads();
  to[threadIdx.x] =
      shared[63 - threadIdx.x] + counter + static_cast<int>(table[place]) + zeros[place];
}

extern "C" __global__ void with_local(float* to, int count) {
  float values[200];
  for (int i = 0; i < 200; i++) values[i] = to[i * count];
  for (int i = 0; i < 200; i++) to[i] = values[(i * count) % 200];
}

extern "C" __global__ void empty() {}
