// See gpu_facts.h.
#include "harness/qualify/gpu_facts.h"

#include <cuda_runtime_api.h>

#include <array>
#include <utility>

#include "allocators/cuda/cuda_check.h"
#include "harness/run/runtime_select.h"

namespace allocmark::qualify {

std::string pci_bus_id(int gpu) {
  std::array<char, 64> text{};
  ALLOCMARK_CUDA_CHECK(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), gpu));
  return text.data();
}

std::string gpu_name(int gpu) {
  cudaDeviceProp properties{};
  ALLOCMARK_CUDA_CHECK(cudaGetDeviceProperties(&properties, gpu));
  return properties.name;
}

std::uint64_t gpu_memory_bytes() {
  std::size_t free_bytes = 0;
  std::size_t memory_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &memory_bytes));
  return memory_bytes;
}

std::optional<Baseline> baseline_for(const TestContext& context) {
  if (!context.spec.baseline_path.empty()) return read_baseline(context.spec.baseline_path);
  return find_baseline(simcuda_folder() + "/profiles", gpu_name(context.spec.gpu));
}

Figure unmeasured(std::string name, std::string threshold, std::string why, bool optional) {
  return {.name = std::move(name),
          .threshold = std::move(threshold),
          .value = {},
          .note = std::move(why),
          .optional = optional};
}

}  // namespace allocmark::qualify
