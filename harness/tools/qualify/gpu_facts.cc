// See gpu_facts.h.
#include "harness/tools/qualify/gpu_facts.h"

#include <cuda_runtime_api.h>

#include <array>
#include <utility>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "base/error.h"
#include "base/input_file.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/environment.h"
#include "harness/tools/qualify/nvml.h"

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
  const std::string& path = context.spec.baseline_path;
  if (!path.empty() && !is_spread_file(read_file(path, kSettingsInput))) return read_baseline(path);
  return find_baseline(simcuda_folder() + "/profiles", gpu_name(context.spec.gpu),
                       machine_gpu_count(context));
}

int machine_gpu_count(const TestContext& context) {
  // A simulated GPU's calls take what they took in the machine of its profile.
  if (context.simulated) return read_baseline(profile_path(context.spec.device)).machine_gpu_count;
  if (const NvmlReading count = Nvml().device_count(); count.value) {
    return static_cast<int>(*count.value);
  }
  int gpu_count = 0;
  ALLOCMARK_CUDA_CHECK(cudaGetDeviceCount(&gpu_count));
  return gpu_count;
}

std::optional<Spread> spread_for(const TestContext& context) {
  const std::string& path = context.spec.baseline_path;
  std::vector<Spread> known;
  if (path.empty()) {
    known = shipped_spreads();
  } else if (const std::string text = read_file(path, kSettingsInput); is_spread_file(text)) {
    known = spreads_from_json(text, path);
  }
  const std::optional<Spread> found =
      choose_spread(known, {.gpu_name = gpu_name(context.spec.gpu),
                            .machine_type = machine_type(),
                            .driver_version = Nvml().driver_version()});
  if (!found || found->machine_count < kSpreadMachinesMin) return std::nullopt;
  return found;
}

Figure unmeasured(std::string name, std::string threshold, std::string why, bool optional) {
  return {.name = std::move(name),
          .threshold = std::move(threshold),
          .value = {},
          .note = std::move(why),
          .optional = optional};
}

std::string machine_type() {
  std::string text;
  for (const char* name : {"sys_vendor", "product_name"}) {
    try {
      std::string part = read_file(std::string("/sys/class/dmi/id/") + name, kSystemInput);
      while (!part.empty() && static_cast<unsigned char>(part.back()) <= ' ') part.pop_back();
      text += (text.empty() || part.empty() ? "" : " ") + part;
    } catch (const FileError&) {
      // Containers and other architectures have none.
    }
  }
  return text;
}

void name_node(Report& report, const std::optional<std::string>& name) {
  report.node.machine_type = machine_type();
  report.is_anonymous = !name;
  if (name) {
    report.node.name = name->empty() ? host_name() : *name;
    return;
  }
  for (GpuReport& gpu : report.gpus) {
    for (std::string* text : {&gpu.facts.uuid, &gpu.facts.pci_bus_id, &gpu.facts.serial}) {
      text->clear();
    }
  }
}

}  // namespace allocmark::qualify
