// Scaled times of a cell, whatever the clocks, the hosts and their rest, hold to what the check of
// a bundle asks of them; and a forged one does not.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "harness/core/cell/cell_result.h"
#include "harness/core/measure/recorder.h"
#include "harness/core/measure/settled_passes.h"
#include "harness/core/measure/usual_calls.h"
#include "results/cell_check.h"
#include "results/schema.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

constexpr double kTargetReferenceNs = 400;

struct Host {
  double reference_ns = 400;  // at rest
  double restlessness = 1;    // of the slowest pass
  double clock_ns = 20, target_clock_ns = 18;
  std::uint64_t clock_step_ns = 1;
  std::uint64_t call_max_ns = 60;
  std::uint64_t preempted_period = 0;  // one call of so many is preempted; 0: none
  std::uint64_t slowdown = 1;          // of all calls of every other pass
};

// Ticks are ns. Calls take less than a pair of readings of the clock, too, as on some hosts.
CellResult cell_on(const Host& host) {
  Random random{7};
  CellResult cell;
  UsualCalls usual(10'000);
  RecorderOptions options;
  options.scale = TickScale{.multiplier = 1000ULL << 32};
  options.has_driver_model = true;
  options.step_count_max = 20;
  Recorder sum(options);
  std::vector<PassParts> parts;
  for (int i = 0; i < 5; ++i) {
    const double disturbance = static_cast<double>(random.below(1000)) / 1000;
    const double reference_ns = host.reference_ns * (1 + (host.restlessness - 1) * disturbance);
    Recorder pass(options);
    pass.follow(&usual);
    pass.scale_host({.factor = kTargetReferenceNs / reference_ns,
                     .clock_ns = host.clock_ns,
                     .target_clock_ns = host.target_clock_ns,
                     .clock_step_ns = static_cast<double>(host.clock_step_ns)});
    for (int call = 0; call < 1000; ++call) {
      if (call % 100 == 0) pass.mark();
      std::uint64_t host_ns =
          random.below(host.call_max_ns) / host.clock_step_ns * host.clock_step_ns;
      if (i % 2 == 1) host_ns *= host.slowdown;
      if (host.preempted_period > 0 && random.below(host.preempted_period) == 0) {
        host_ns += 3'000'000;
      }
      const std::uint64_t driver_ns = call % 50 == 0 ? 100'000 : 0;
      pass.add(call % 2 == 0 ? Operation::Allocate : Operation::Deallocate, 0, host_ns, driver_ns);
      ++cell.event_count;
    }
    pass.end_pass();
    usual.end_pass();
    parts.push_back(pass.parts());
    sum.merge(pass);
    cell.passes.push_back({.allocate_buckets = pass.buckets(Operation::Allocate),
                           .deallocate_buckets = pass.buckets(Operation::Deallocate),
                           .allocator_ns_per_step = pass.step_ns_median(),
                           .host_reference_ns = reference_ns});
  }
  cell.event_count /= cell.passes.size();
  fill_latencies(cell, sum, {});
  fill_settled(cell, settle(parts, {.scale = options.scale,
                                    .host_scale = *std::ranges::max_element(sum.host_scales(), {},
                                                                            &HostScale::factor),
                                    .step_count_max = options.step_count_max}));
  return cell;
}

std::vector<std::string> findings_of_scaling(const CellResult& cell) {
  std::vector<std::string> findings = impossibilities(cell);
  std::erase_if(findings, [](const std::string& finding) {
    return finding.find("scaled") == std::string::npos &&
           finding.find("undisturbed") == std::string::npos && !finding.starts_with("host_");
  });
  return findings;
}

const std::vector<Host> kHosts = {
    {},
    {.reference_ns = 800, .target_clock_ns = 8},
    {.reference_ns = 250, .clock_ns = 8, .target_clock_ns = 24},
    {.reference_ns = 600, .restlessness = 3},
    {.reference_ns = 300, .clock_step_ns = 10, .call_max_ns = 40},
    {.reference_ns = 500, .restlessness = 2, .clock_ns = 10, .clock_step_ns = 10},
    // Most calls take less than the clock.
    {.clock_ns = 40, .target_clock_ns = 24, .call_max_ns = 30},
    {.clock_ns = 24, .target_clock_ns = 24, .clock_step_ns = 10, .call_max_ns = 20},
    {.restlessness = 2, .preempted_period = 30},
    {.call_max_ns = 3000, .slowdown = 3},
};

}  // namespace

TEST_CASE("scaled times follow from the measured ones on every host") {
  for (const Host& host : kHosts) {
    INFO("host " << &host - kHosts.data());
    const std::vector<std::string> findings = findings_of_scaling(cell_on(host));
    for (const std::string& finding : findings) CHECK(finding.empty());
  }
}

TEST_CASE("preempted calls change no time per step") {
  const CellResult quiet = cell_on({});
  const CellResult loaded = cell_on({.preempted_period = 30});
  CHECK(loaded.allocator_ns_per_step > 3 * quiet.allocator_ns_per_step);
  // Some of ten calls a step in the first pass, of which nothing is known before it.
  CHECK(loaded.allocator_undisturbed_ns_per_step < 1.5 * quiet.allocator_undisturbed_ns_per_step);
  CHECK(loaded.allocator_scaled_ns_per_step < 1.5 * quiet.allocator_scaled_ns_per_step);
}

TEST_CASE("forged scaled times are found on every host") {
  for (const Host& host : kHosts) {
    INFO("host " << &host - kHosts.data());
    const CellResult sound = cell_on(host);
    CellResult cell = sound;
    cell.scaled.allocate_p50_ns /= 3;
    CHECK(findings_of_scaling(cell).size() == 1);
    cell = sound;
    cell.scaled.deallocate_p99_ns *= 100;
    CHECK(findings_of_scaling(cell).size() == 1);
    cell = sound;
    for (PassSummary& pass : cell.passes) pass.allocator_scaled_ns_per_step *= 5;
    cell.allocator_scaled_ns_per_step *= 5;
    CHECK(findings_of_scaling(cell).size() == 1);
    cell = sound;
    cell.passes[1].allocator_scaled_ns *= 5;
    CHECK(findings_of_scaling(cell).size() == 1);
    cell = sound;
    cell.passes[2].allocator_undisturbed_ns /= 5;
    CHECK(!findings_of_scaling(cell).empty());
    cell = sound;
    for (PassSummary& pass : cell.passes) pass.allocator_undisturbed_ns_per_step *= 5000;
    cell.allocator_undisturbed_ns_per_step *= 5000;
    CHECK(findings_of_scaling(cell).size() > 1);
    cell = sound;
    cell.host_clock_ns = 5000;
    CHECK(!findings_of_scaling(cell).empty());
  }
}

}  // namespace allocmark
