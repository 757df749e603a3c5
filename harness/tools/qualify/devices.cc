// Helper "devices": which GPUs the process sees. One figure per GPU in CUDA's order (name, bytes of
// memory, a hash of its UUID as the note), then what NVML says about their number. Who they are
// stands in the texts: "0.uuid", "0.pci_bus_id", "0.serial", "0.vbios", "driver_version". Makes no
// context.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <string>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "harness/core/run/environment.h"
#include "harness/tools/qualify/gpu_facts.h"
#include "harness/tools/qualify/nvml.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {

namespace {

// "GPU-1b2c...": as nvidia-smi writes it.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < std::size(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

void say_who(int gpu, const cudaDeviceProp& properties, TestAnswer& answer) {
  const std::string key = std::to_string(gpu) + ".";
  answer.texts[key + "uuid"] = uuid_text(properties.uuid);
  try {
    const std::string address = pci_bus_id(gpu);
    answer.texts[key + "pci_bus_id"] = address;
    Nvml nvml;
    if (!nvml.select(address).empty()) return;
    answer.texts[key + "serial"] = nvml.serial();
    answer.texts[key + "vbios"] = nvml.vbios();
  } catch (const EnvironmentError&) {
    // A GPU that does not tell its address is told by its UUID.
  }
}

}  // namespace

TestAnswer run_devices(const TestContext& context) {
  TestAnswer answer;
  int count = 0;
  ALLOCMARK_CUDA_CHECK(cudaGetDeviceCount(&count));
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    ALLOCMARK_CUDA_CHECK(cudaGetDeviceProperties(&properties, i));
    answer.figures.push_back(
        {.name = properties.name,
         .value = static_cast<double>(properties.totalGlobalMem),
         .note = text_hash({properties.uuid.bytes, std::size(properties.uuid.bytes)})});
    say_who(i, properties, answer);
  }
  const Nvml nvml;
  answer.texts["driver_version"] = nvml.driver_version();
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
