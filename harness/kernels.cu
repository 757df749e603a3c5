// Work for streams on a GPU: a kernel of a given duration, and one that waits for the host, which
// do not touch the memory of an allocation; and two that write and check it.
#include "harness/kernels.h"

#include "harness/block_pattern.h"

namespace allocmark {

namespace {

constexpr unsigned kPatternThreadCount = 256;
constexpr std::uint64_t kPatternGridMax = 2048;

__device__ std::uint64_t device_ns() {
  std::uint64_t now_ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
  return now_ns;
}

__global__ void spin(std::uint64_t duration_ns) {
  const std::uint64_t begin_ns = device_ns();
  while (device_ns() - begin_ns < duration_ns) {
  }
}

__global__ void wait_for_gate(const volatile std::uint64_t* opened, std::uint64_t ticket,
                              std::uint64_t time_limit_ns) {
  const std::uint64_t begin_ns = device_ns();
  while (*opened < ticket && device_ns() - begin_ns < time_limit_ns) {
  }
}

// Word number `index` of a block as bytes; the last word may be shorter than 8.
struct WordBytes {
  std::uint64_t offset_bytes;
  std::uint64_t count;
};

__device__ WordBytes word_bytes(const PatternBlock& block, std::uint64_t index) {
  const std::uint64_t offset_bytes = index * kPatternBytes;
  const std::uint64_t left_bytes = block.size_bytes - offset_bytes;
  return {offset_bytes, left_bytes < kPatternBytes ? left_bytes : kPatternBytes};
}

__global__ void write_pattern(PatternBlock block) {
  const std::uint64_t count = (block.size_bytes + kPatternBytes - 1) / kPatternBytes;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    const WordBytes bytes = word_bytes(block, i);
    const std::uint64_t word =
        pattern_word({.event_index = block.event_index, .offset_bytes = bytes.offset_bytes});
    unsigned char* const at = static_cast<unsigned char*>(block.block) + bytes.offset_bytes;
    if (bytes.count == kPatternBytes) {
      *reinterpret_cast<std::uint64_t*>(at) = word;
    } else {
      memcpy(at, &word, bytes.count);
    }
  }
}

__global__ void check_pattern(PatternBlock block, PatternFault* fault) {
  const std::uint64_t count = (block.size_bytes + kPatternBytes - 1) / kPatternBytes;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    const WordBytes bytes = word_bytes(block, i);
    const std::uint64_t expected =
        pattern_word({.event_index = block.event_index, .offset_bytes = bytes.offset_bytes});
    const unsigned char* const at =
        static_cast<const unsigned char*>(block.block) + bytes.offset_bytes;
    std::uint64_t found = expected;
    if (bytes.count == kPatternBytes) {
      found = *reinterpret_cast<const std::uint64_t*>(at);
    } else {
      memcpy(&found, at, bytes.count);
    }
    if (found == expected || atomicExch_system(&fault->claimed, 1ull) != 0) continue;
    fault->block = block;
    fault->offset_bytes = bytes.offset_bytes;
    fault->expected = expected;
    fault->found = found;
    __threadfence_system();
    fault->complete = 1;
  }
}

// Enough threads to keep the memory busy; the loops take the rest.
unsigned grid_of(const PatternBlock& block) {
  const std::uint64_t words = (block.size_bytes + kPatternBytes - 1) / kPatternBytes;
  const std::uint64_t blocks = (words + kPatternThreadCount - 1) / kPatternThreadCount;
  return static_cast<unsigned>(blocks < kPatternGridMax ? blocks : kPatternGridMax);
}

}  // namespace

cudaError_t launch_write_pattern_kernel(cudaStream_t stream, const PatternBlock& block) {
  if (block.size_bytes == 0) return cudaSuccess;
  write_pattern<<<grid_of(block), kPatternThreadCount, 0, stream>>>(block);
  return cudaGetLastError();
}

cudaError_t launch_check_pattern_kernel(cudaStream_t stream, const PatternBlock& block,
                                        PatternFault* fault) {
  if (block.size_bytes == 0) return cudaSuccess;
  check_pattern<<<grid_of(block), kPatternThreadCount, 0, stream>>>(block, fault);
  return cudaGetLastError();
}

cudaError_t launch_spin_kernel(cudaStream_t stream, std::uint64_t duration_ns) {
  spin<<<1, 1, 0, stream>>>(duration_ns);
  return cudaGetLastError();
}

cudaError_t launch_gate_kernel(cudaStream_t stream, const GateKernel& gate) {
  wait_for_gate<<<1, 1, 0, stream>>>(gate.opened, gate.ticket, gate.time_limit_ns);
  return cudaGetLastError();
}

}  // namespace allocmark
