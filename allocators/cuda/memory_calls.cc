// See memory_calls.h.
#include "allocators/cuda/memory_calls.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace allocmark {
namespace {

constexpr std::array<std::string_view, 16> kTakesMemory = {"cudaMalloc",
                                                           "cudaMallocPitch",
                                                           "cudaMalloc3D",
                                                           "cudaMallocManaged",
                                                           "cudaMallocAsync",
                                                           "cudaMallocAsync_ptsz",
                                                           "cudaMallocFromPoolAsync",
                                                           "cudaMallocFromPoolAsync_ptsz",
                                                           "cudaMemGetInfo",
                                                           "cuMemAlloc_v2",
                                                           "cuMemAlloc",
                                                           "cuMemAllocAsync",
                                                           "cuMemAllocFromPoolAsync",
                                                           "cuMemCreate",
                                                           "cuMemMap",
                                                           "cuMemGetInfo_v2"};

}  // namespace

bool asks_for_memory(std::string_view function) {
  return std::ranges::find(kTakesMemory, function) != kTakesMemory.end();
}

std::optional<ThreadCalls> simulated_calls_of_thread() {
  using Counts = std::uint64_t (*)(std::uint64_t * counts, std::uint64_t capacity);
  using Name = const char* (*)(std::uint64_t index);
  const auto counts_of = reinterpret_cast<Counts>(dlsym(RTLD_DEFAULT, "simcu_thread_calls"));
  const auto name_of = reinterpret_cast<Name>(dlsym(RTLD_DEFAULT, "simcu_call_name"));
  if (counts_of == nullptr || name_of == nullptr) return std::nullopt;
  std::vector<std::uint64_t> counts(counts_of(nullptr, 0));
  (void)counts_of(counts.data(), counts.size());
  ThreadCalls calls;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    calls.all += counts[i];
    if (asks_for_memory(name_of(i))) calls.for_memory += counts[i];
  }
  return calls;
}

}  // namespace allocmark
