// A ring of device blocks that streams use in turn: the code under test of this example.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

class BlockRing {
 public:
  // Takes all memory at once. Throws std::runtime_error where CUDA refuses, and then holds nothing.
  BlockRing(std::size_t block_count, std::size_t block_bytes);
  ~BlockRing();
  BlockRing(const BlockRing&) = delete;
  BlockRing& operator=(const BlockRing&) = delete;

  // The next block, for work on `stream`: it waits, on the device, for the block's earlier work.
  [[nodiscard]] void* acquire(cudaStream_t stream);
  // The newest acquired block: all its work is on `stream` by now.
  void release(cudaStream_t stream);

 private:
  struct Block {
    void* memory = nullptr;
    cudaEvent_t done = nullptr;
  };
  void free_all();

  std::vector<Block> blocks_;
  std::size_t block_bytes_;
  std::size_t next_ = 0;
};
