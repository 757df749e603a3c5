// A graph with two blocks of device memory and a stream to launch it in, for tests that ask a GPU
// and simcuda the same.
#pragma once

#include <cuda_runtime_api.h>

#include "tests/catch.h"

namespace conformance {

constexpr std::size_t kBytes = 1024;

// A host function, and a destructor of objects: one more in the number that is given.
inline void count_up(void* counter) { ++*static_cast<int*>(counter); }

struct GraphPlace {
  GraphPlace() {
    REQUIRE(cudaMalloc(&one, kBytes) == cudaSuccess);
    REQUIRE(cudaMalloc(&two, kBytes) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
    set(one, 1);
    set(two, 2);
  }
  ~GraphPlace() {
    if (exec != nullptr) cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    cudaFree(one);
    cudaFree(two);
  }
  GraphPlace(const GraphPlace&) = delete;
  GraphPlace& operator=(const GraphPlace&) = delete;

  static void set(void* block, int value) {
    REQUIRE(cudaMemset(block, value, kBytes) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  void instantiate() { REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess); }
  void launch() const {
    REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  }
  void* one = nullptr;
  void* two = nullptr;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
};

}  // namespace conformance
