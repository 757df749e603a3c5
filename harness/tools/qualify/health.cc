// Test "health", the last one: what NVML says now, against what it said before the tests
// ("before.NAME" in the readings) and during them ("during.NAME"). Touches no GPU.
#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>
#include "harness/tools/qualify/gpu_facts.h"
#include "harness/tools/qualify/nvml.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {
namespace {

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
