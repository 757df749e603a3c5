#include "block_ring.h"

#include <stdexcept>
#include <string>

namespace {

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) {
    cudaGetLastError();
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
  }
}

}  // namespace

BlockRing::BlockRing(std::size_t block_count, std::size_t block_bytes)
    : blocks_(block_count), block_bytes_(block_bytes) {
  try {
    for (Block& block : blocks_) {
      check(cudaMalloc(&block.memory, block_bytes_), "cudaMalloc");
      check(cudaEventCreateWithFlags(&block.done, cudaEventDisableTiming), "cudaEventCreate");
    }
  } catch (...) {
#ifndef PLANTED_LEAK
    free_all();
#endif
    throw;
  }
}

BlockRing::~BlockRing() { free_all(); }

void BlockRing::free_all() {
  for (Block& block : blocks_) {
    if (block.done != nullptr) cudaEventDestroy(block.done);
    if (block.memory != nullptr) cudaFree(block.memory);
  }
}

void* BlockRing::acquire(cudaStream_t stream) {
  Block& block = blocks_[next_];
#ifdef PLANTED_ALLOCATE
  cudaFree(block.memory);
  check(cudaMalloc(&block.memory, block_bytes_), "cudaMalloc");
#endif
#ifndef PLANTED_NO_ORDER
  check(cudaStreamWaitEvent(stream, block.done, 0), "cudaStreamWaitEvent");
#else
  static_cast<void>(stream);
#endif
  return block.memory;
}

void BlockRing::release(cudaStream_t stream) {
  check(cudaEventRecord(blocks_[next_].done, stream), "cudaEventRecord");
  next_ = (next_ + 1) % blocks_.size();
}
