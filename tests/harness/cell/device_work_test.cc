// Goal: a cell simulates a step with the host's and the device's time, and judges pools with work
// in flight. Method: traces of a few rows, whose times follow by hand; on simcuda.
#include <string>

#include "harness/core/cell/cell.h"
#include "harness/core/replay/simcu_api.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {
namespace {

class Rows {
 public:
  explicit Rows(const std::string& rows)
      : path_(folder_.write("t.csv", "op,id,size,stream\n" + rows)) {}
  [[nodiscard]] CellResult run(const std::string& allocator, const std::string& capacity,
                               const std::string& additions = {}) const {
    CellSpec spec;
    spec.key.workload = "file:" + path_ + additions;
    spec.key.allocator = allocator;
    spec.key.capacity = capacity;
    spec.key.device = "sim:h200";
    return run_cell(spec);
  }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

// Two steps of which the host works 2 ms each, and the device 5 and 1 ms; the first ends with a
// wait. `between` stands in the first step.
std::string two_steps(const std::string& between) {
  return "mark,begin,0,0\nalloc,1,4194304,0\nmark,step0,0,0\nhost,0,1000000,0\n"
         "kernel,0,5000000,0\n" +
         between +
         "host,0,1000000,0\nalloc,2,1048576,0\nsync,0,0,0\nmark,step1,0,0\nhost,0,2000000,0\n"
         "kernel,0,1000000,0\nfree,2,0,0\nalloc,4,1048576,0\n";
}

TEST_CASE("a step's time is simulated with the program's own and the device's", "[simcuda]") {
  if (!SimcuApi::find().present) return;
  const Rows trace(two_steps(""));
  const CellResult result = trace.run("caching", "unlimited");
  INFO(result.reason);
  CHECK(result.host_ns_total == 4'000'000);
  // 1 ms, then 5 of the device; 2 ms, then 1 of the device. The preamble is no step.
  CHECK(result.step_ideal_ns_mean == Approx(4.5e6).epsilon(0.01));
  CHECK(result.step_ns_mean >= result.step_ideal_ns_mean);
  // What the device was busy with while the allocator waited for it costs the step nothing.
  const Rows waits(two_steps("alloc,3,67108864,0\nfree,3,0,0\nempty_cache,0,0,0\n"));
  const CellResult waited = waits.run("caching", "unlimited");
  const double added_ns = waited.step_ns_mean - waited.step_ideal_ns_mean;
  CHECK(waited.allocator_ns_per_step > 0);
  CHECK(added_ns > 0.4e6);  // half of the millisecond that the host was ahead, a step
  CHECK(added_ns < 2e6);
}

TEST_CASE("a pool is judged with work in flight where a recording tells of none", "[simcuda]") {
  if (!SimcuApi::find().present) return;
  // The second block is asked for while the first one's memory is still the kernel's.
  std::string rows;
  for (int id = 1; id <= 40; ++id) {
    const std::string name = std::to_string(id);
    rows += "alloc," + name + "," + std::to_string((1 + id % 7) << 25) + "," +
            std::to_string(id % 2) + "\nfree," + name + ",0,0\n";
  }
  const Rows trace(rows);
  const CellResult pool = trace.run("async", "288MiB");
  INFO(pool.reason);
  CHECK(pool.assumed_kernel_ns.has_value());
  REQUIRE(pool.idle_oom_count.has_value());
  CHECK_FALSE(pool.kernel_ns_total.has_value());  // the trace has none
  for (const std::string& warning : pool.warnings) {
    CHECK(warning.find("not deterministic") == std::string::npos);
  }
  const CellResult idle = trace.run("async", "288MiB", "+kernels:off");
  CHECK_FALSE(idle.assumed_kernel_ns.has_value());
  CHECK(idle.oom_count == *pool.idle_oom_count);
  CHECK(idle.trial_oom_count == pool.trial_oom_count);
  const CellResult busy = trace.run("async", "288MiB", "+kernels:1s");
  CHECK(busy.oom_count == pool.oom_count);
  CHECK(busy.placement_hash == pool.placement_hash);
  CHECK(busy.placement_hash != idle.placement_hash);
  CHECK_FALSE(trace.run("caching", "unlimited").assumed_kernel_ns.has_value());
}

}  // namespace
}  // namespace allocmark
