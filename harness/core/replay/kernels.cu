// Work for streams on a GPU: a kernel of a given duration, and one that waits for the host, which
// do not touch the memory of an allocation; and two that write and check it.
#include "harness/core/replay/kernels.h"

#include "harness/core/replay/block_pattern.h"

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

__global__ void wait_for_gate(GateKernel gate) {
  std::uint64_t progress = *gate.progress;
  std::uint64_t progress_ns = device_ns();
  while (*gate.opened < gate.ticket) {
    const std::uint64_t now_ns = device_ns();
    const std::uint64_t progress_now = *gate.progress;
    if (progress_now != progress) {
      progress = progress_now;
      progress_ns = now_ns;
    } else if (now_ns - progress_ns >= gate.stall_ns_max) {
      return;
    }
    __nanosleep(1000);  // the host writes what is read here; let it have its cache line
  }
}

// Blocks are walked in pairs of words, which is the widest access a thread has.
constexpr std::uint64_t kPairBytes = 2 * kPatternBytes;

__device__ std::uint64_t word_of(const PatternBlock& block, std::uint64_t index) {
  return block.flip ^
         pattern_word({.event_index = block.event_index, .offset_bytes = index * kPatternBytes});
}

__device__ std::uint64_t thread_index() {
  return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

__device__ std::uint64_t thread_count() { return std::uint64_t{gridDim.x} * blockDim.x; }

// Word number `index` as bytes: pairs that are not aligned, and the end of a block, are touched so.
__device__ std::uint64_t byte_count(const PatternBlock& block, std::uint64_t index) {
  const std::uint64_t left_bytes = block.size_bytes - index * kPatternBytes;
  return left_bytes < kPatternBytes ? left_bytes : kPatternBytes;
}

__device__ void write_word(const PatternBlock& block, std::uint64_t index) {
  const std::uint64_t word = word_of(block, index);
  memcpy(static_cast<unsigned char*>(block.block) + index * kPatternBytes, &word,
         byte_count(block, index));
}

__device__ std::uint64_t read_word(const PatternBlock& block, std::uint64_t index) {
  std::uint64_t word = word_of(block, index);
  memcpy(&word, static_cast<const unsigned char*>(block.block) + index * kPatternBytes,
         byte_count(block, index));
  return word;
}

// The words that no pair covers: all of them where the block is not aligned for pairs.
__device__ std::uint64_t first_single_word(const PatternBlock& block) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(block.block) % kPairBytes == 0;
  return aligned ? block.size_bytes / kPairBytes * 2 : 0;
}

__device__ std::uint64_t word_count(const PatternBlock& block) {
  return (block.size_bytes + kPatternBytes - 1) / kPatternBytes;
}

__global__ void write_pattern(PatternBlock block) {
  const std::uint64_t first_single = first_single_word(block);
  auto* const pairs = static_cast<ulonglong2*>(block.block);
#pragma unroll 4
  for (std::uint64_t i = thread_index(); i < first_single / 2; i += thread_count()) {
    pairs[i] = make_ulonglong2(word_of(block, 2 * i), word_of(block, 2 * i + 1));
  }
  for (std::uint64_t i = first_single + thread_index(); i < word_count(block);
       i += thread_count()) {
    write_word(block, i);
  }
}

__device__ void report_word(const PatternBlock& block, std::uint64_t index, std::uint64_t found,
                            PatternFault* fault) {
  const std::uint64_t expected = word_of(block, index);
  if (found == expected || atomicAdd_system(&fault->word_count, 1ull) != 0) return;
  fault->block = block;
  fault->offset_bytes = index * kPatternBytes;
  fault->expected = expected;
  fault->found = found;
  __threadfence_system();
  fault->complete = 1;
}

__global__ void check_pattern(PatternBlock block, PatternFault* fault) {
  const std::uint64_t first_single = first_single_word(block);
  const auto* const pairs = static_cast<const ulonglong2*>(block.block);
#pragma unroll 4
  for (std::uint64_t i = thread_index(); i < first_single / 2; i += thread_count()) {
    const ulonglong2 pair = pairs[i];
    if (((pair.x ^ word_of(block, 2 * i)) | (pair.y ^ word_of(block, 2 * i + 1))) == 0) continue;
    report_word(block, 2 * i, pair.x, fault);
    report_word(block, 2 * i + 1, pair.y, fault);
  }
  for (std::uint64_t i = first_single + thread_index(); i < word_count(block);
       i += thread_count()) {
    report_word(block, i, read_word(block, i), fault);
  }
}

// Enough threads to keep the memory busy; the loops take the rest.
unsigned grid_of(const PatternBlock& block) {
  const std::uint64_t pairs = (block.size_bytes + kPairBytes - 1) / kPairBytes;
  const std::uint64_t blocks = (pairs + kPatternThreadCount - 1) / kPatternThreadCount;
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
  wait_for_gate<<<1, 1, 0, stream>>>(gate);
  return cudaGetLastError();
}

}  // namespace allocmark
