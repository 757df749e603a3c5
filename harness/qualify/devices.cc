// Helper "devices": which GPUs the process sees. One figure per GPU in CUDA's order (name, bytes of
// memory, a hash of its UUID as the note), then what NVML says about their number. Makes no
// context.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#include "allocators/cuda/cuda_check.h"
#include "harness/qualify/gpu_facts.h"
#include "harness/qualify/nvml.h"
#include "harness/qualify/tests.h"
#include "harness/run/environment.h"

namespace allocmark::qualify {

TestAnswer run_devices(const TestContext& context) {
  TestAnswer answer;
  int count = 0;
  ALLOCMARK_CUDA_CHECK(cudaGetDeviceCount(&count));
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    ALLOCMARK_CUDA_CHECK(cudaGetDeviceProperties(&properties, i));
    answer.figures.push_back(
        {.name = properties.name,
         .threshold = "",
         .value = static_cast<double>(properties.totalGlobalMem),
         .note = text_hash({properties.uuid.bytes, std::size(properties.uuid.bytes)})});
  }
  const Nvml nvml;
  const NvmlReading listed = nvml.device_count();
  const bool hidden = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr && !context.simulated;
  if (!listed.value || hidden) {
    answer.figures.push_back(unmeasured("GPUs missing", "devices.missing",
                                        hidden ? "CUDA_VISIBLE_DEVICES is set" : listed.problem,
                                        true));
  } else {
    answer.figures.push_back({.name = "GPUs missing",
                              .threshold = "devices.missing",
                              .value = *listed.value - count,
                              .note = "driver " + nvml.driver_version()});
  }
  return answer;
}

}  // namespace allocmark::qualify
