// What NVML says of a GPU. Test "preconditions", the first one: is the GPU in a state to be judged?
// It looks before anything of ours is on the GPU, then makes a context, and changes nothing. Test
// "health", the last one: what NVML says now, against what it said before the tests ("before.NAME"
// in the readings) and during them ("during.NAME"). It touches no GPU.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

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

std::optional<double> reading_of(const TestContext& context, const std::string& name) {
  const auto found = context.spec.readings.find(name);
  if (found == context.spec.readings.end()) return std::nullopt;
  return found->second;
}

struct Growth {
  const char *name, *reading, *threshold;
};

Figure growth_figure(const TestContext& context, const Nvml& nvml, const Growth& growth) {
  const NvmlReading now = nvml.read(growth.reading);
  const std::optional<double> before = reading_of(context, std::string("before.") + growth.reading);
  if (!now.value) {
    return unmeasured(growth.name, growth.threshold, now.problem, now.is_unsupported);
  }
  if (!before) return unmeasured(growth.name, growth.threshold, "not read before the tests");
  return {.name = growth.name,
          .threshold = growth.threshold,
          .value = std::max(0.0, *now.value - *before),
          .note = fmt::format("{:.0f} before, {:.0f} after", *before, *now.value)};
}

Figure seen_figure(const TestContext& context, const char* name, const char* reading,
                   const char* threshold) {
  const std::optional<double> seen = reading_of(context, std::string("during.") + reading);
  if (!seen) return unmeasured(name, threshold, "NVML did not tell during the tests", true);
  return {.name = name, .threshold = threshold, .value = seen};
}

Figure clock_share(const TestContext& context, const Nvml& nvml) {
  constexpr const char* kName = "SM clock reached";
  constexpr const char* kThreshold = "health.sm_clock_share";
  const std::optional<double> peak = reading_of(context, "during.sm_mhz_peak");
  const NvmlReading most = nvml.read("sm_mhz_max");
  if (!peak || !most.value || *most.value == 0) {
    return unmeasured(kName, kThreshold, "NVML did not tell", true);
  }
  return {.name = kName,
          .threshold = kThreshold,
          .value = *peak / *most.value,
          .note = fmt::format("{:.0f} of {:.0f} MHz", *peak, *most.value)};
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

TestAnswer run_health(const TestContext& context) {
  constexpr Growth kGrowths[] = {
      {"corrected ECC errors", "ecc_corrected", "health.ecc_corrected_growth"},
      {"uncorrected ECC errors", "ecc_uncorrected", "health.ecc_uncorrected_growth"},
      {"memory put out of use", "retired", "health.retired_growth"},
      {"memory left in use", "used_bytes", "health.left_bytes"},
  };
  TestAnswer answer;
  Nvml nvml;
  const std::string problem = nvml.select(pci_bus_id(context.spec.gpu));
  if (!problem.empty()) {
    // Where it answered before the tests, it has gone since.
    const bool was_there = reading_of(context, "before.used_bytes").has_value();
    (was_there ? answer.failure : answer.skip) = problem;
    return answer;
  }
  for (const Growth& growth : kGrowths) {
    answer.figures.push_back(growth_figure(context, nvml, growth));
  }
  Figure xids = seen_figure(context, "Xid events", "xid_count", "health.xid_count");
  if (const auto last = reading_of(context, "during.xid_last")) {
    xids.note = fmt::format("the last was Xid {:.0f}", *last);
  }
  answer.figures.push_back(xids);
  answer.figures.push_back(
      seen_figure(context, "throttle reasons", "throttle_bits", "health.throttle_bits"));
  answer.figures.push_back(
      seen_figure(context, "temperature", "celsius_peak", "health.celsius_peak"));
  answer.figures.push_back(clock_share(context, nvml));
  return answer;
}

}  // namespace allocmark::qualify
