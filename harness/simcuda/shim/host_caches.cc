#include "harness/simcuda/shim/host_caches.h"

#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

namespace simcuda {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kKiB = 1024;
// More than a second-level cache holds.
constexpr std::size_t kMemoryBytes = 8192 * kKiB;
// What a call reads on an idle device, and per GiB in use.
constexpr std::size_t kBaseBytes = 96 * kKiB;
constexpr std::size_t kBytesPerGiB = 32 * kKiB;
// A first-level cache. Failed requests read little else.
constexpr std::size_t kFirstLevelBytes = 48 * kKiB;
// About 10 us.
constexpr std::uint64_t kTicksInARow = 20000;

constinit std::atomic<bool> leave_warm{false};

// Runs through 4 KiB of code, a jump in every line.
template <std::size_t kBlock>
void run_code() {
  asm volatile(".rept 64\n jmp 1f\n .balign 64\n 1:\n .endr" ::: "memory");
}
constexpr std::size_t kCodeBlockCount = 12;  // 48 KiB, more than a first-level cache holds
using CodeBlocks = std::array<void (*)(), kCodeBlockCount>;
template <std::size_t... kBlock>
constexpr CodeBlocks code_blocks(std::index_sequence<kBlock...>) {
  return {&run_code<kBlock>...};
}
constexpr CodeBlocks kCode = code_blocks(std::make_index_sequence<kCodeBlockCount>());
// All of the code runs with so much data.
constexpr std::size_t kBytesPerCodeBlock = 256 * kKiB;

void read_memory(std::size_t bytes) {
  // Written once, since untouched pages would all be one; never destroyed, since calls come also
  // while a process ends.
  static const std::vector<unsigned char>& memory =
      *new std::vector<unsigned char>(kMemoryBytes, 1);
  static std::atomic<std::size_t> next_byte{0};
  std::size_t at = next_byte.fetch_add(bytes, std::memory_order_relaxed);
  unsigned sum = 0;
  for (std::size_t read = 0; read < bytes; read += kLineBytes, at += kLineBytes) {
    sum += memory[at % kMemoryBytes];
  }
  volatile unsigned sink = sum;
  static_cast<void>(sink);
}

}  // namespace

std::size_t displaced_bytes(CostId cost, std::uint64_t device_used_bytes) {
  const std::size_t bytes =
      kBaseBytes + static_cast<std::size_t>((kBytesPerGiB * (device_used_bytes >> 20)) >> 10);
  if (cost == CostId::MallocFailed) return kFirstLevelBytes;
  const bool gives_back =
      is_one_of(cost, CostId::Free, CostId::ReleaseChunks, CostId::MemRelease, CostId::MemUnmap);
  return gives_back ? bytes / 2 : bytes;
}

void leave_host_caches_warm(bool leaves) { leave_warm.store(leaves, std::memory_order_relaxed); }

void HostCaches::displace(std::size_t bytes) {
  if (leave_warm.load(std::memory_order_relaxed)) return;
  const bool empties = bytes > kFirstLevelBytes;
  // Calls in a row find caches that the one before has emptied.
  if (empties && __rdtsc() - emptied_ticks < kTicksInARow) {
    bytes = kFirstLevelBytes;
  }
  const std::size_t code_count = std::min(bytes / kBytesPerCodeBlock, kCode.size());
  for (std::size_t i = 0; i < code_count; ++i) kCode[i]();
  read_memory(bytes);
  if (empties) emptied_ticks = __rdtsc();
}

}  // namespace simcuda
