// Test "preconditions": is the GPU in a state to be judged? Looks before anything of ours is on the
// GPU, then makes a context. Changes nothing.
#include <cuda_runtime_api.h>

#include <cstddef>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "harness/tools/qualify/gpu_facts.h"
#include "harness/tools/qualify/nvml.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {
namespace {

Figure from_nvml(const Nvml& nvml, const char* name, const char* reading_name,
                 const char* threshold) {
  const NvmlReading reading = nvml.read(reading_name);
  if (!reading.value) return unmeasured(name, threshold, reading.problem, reading.is_unsupported);
  return {.name = name, .threshold = threshold, .value = reading.value};
}

struct Share {
  const char *name, *reading, *reading_of_all, *threshold;
};

Figure share_figure(const Nvml& nvml, const Share& share) {
  const NvmlReading now = nvml.read(share.reading);
  const NvmlReading all = nvml.read(share.reading_of_all);
  if (!now.value || !all.value || *all.value == 0) {
    return unmeasured(share.name, share.threshold, now.value ? all.problem : now.problem, true);
  }
  return {.name = share.name,
          .threshold = share.threshold,
          .value = *now.value / *all.value,
          .note = fmt::format("{:.0f} of {:.0f}", *now.value, *all.value)};
}

void look_through_nvml(const Nvml& nvml, TestAnswer& answer) {
  const struct {
    const char *name, *reading, *threshold;
  } kLooks[] = {
      {"other processes", "other_processes", "preconditions.other_processes"},
      {"memory in use", "used_bytes", "preconditions.foreign_bytes"},
      {"ECC", "ecc_on", "preconditions.ecc_on"},
      {"uncorrected ECC errors", "ecc_uncorrected", "preconditions.ecc_uncorrected"},
      {"corrected ECC errors", "ecc_corrected", "preconditions.ecc_corrected"},
      {"memory put out of use", "retired", "preconditions.retired"},
      {"memory repair pending", "remap_pending", "preconditions.remap_pending"},
      {"memory repair failed", "remap_failed", "preconditions.remap_failed"},
      {"throttle reasons", "throttle_bits", "preconditions.throttle_bits"},
      {"temperature", "celsius", "preconditions.celsius"},
  };
  for (const auto& look : kLooks) {
    answer.figures.push_back(from_nvml(nvml, look.name, look.reading, look.threshold));
  }
  answer.figures.push_back(share_figure(
      nvml, {"PCIe lanes", "pcie_width", "pcie_width_max", "preconditions.pcie_width_share"}));
  answer.figures.push_back(
      share_figure(nvml, {"power limit in mW", "power_limit_mw", "power_limit_default_mw",
                          "preconditions.power_limit_share"}));
  answer.readings = nvml.read_all();
  // Another program's work must not be disturbed by ours.
  answer.unsafe =
      answer.readings.contains("other_processes") && answer.readings.at("other_processes") > 0;
}

}  // namespace

TestAnswer run_preconditions(const TestContext& context) {
  TestAnswer answer;
  Nvml nvml;
  (void)nvml.select(pci_bus_id(context.spec.gpu));  // where it fails, every reading says why
  look_through_nvml(nvml, answer);

  int driver_version = 0;
  ALLOCMARK_CUDA_CHECK(cudaDriverGetVersion(&driver_version));
  answer.figures.push_back({.name = "driver",
                            .threshold = "preconditions.driver_cuda_version",
                            .value = driver_version,
                            .note = nvml.driver_version()});
  if (answer.unsafe) return answer;  // not even a context of ours
  ALLOCMARK_CUDA_CHECK(cudaSetDevice(context.spec.gpu));
  std::size_t free_bytes = 0;
  std::size_t memory_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &memory_bytes));
  answer.figures.push_back(
      {.name = "free memory",
       .threshold = "preconditions.free_share",
       .value = static_cast<double>(free_bytes) / static_cast<double>(memory_bytes)});
  return answer;
}

}  // namespace allocmark::qualify
