// Goal: a cell with somebody else's allocator ends in figures, or in a status that names what the
// allocator did wrong. Method: the example library and one with planted faults, on the simulated
// device.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/core/cell/cell.h"
#include "harness/core/cell/soak.h"
#include "harness/core/replay/simcu_api.h"
#include "results/cell_check.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {
namespace {

CellSpec spec_of(const std::string& conf) {
  CellSpec spec;
  spec.key.workload = "gpt2_train_amp";
  spec.key.allocator = "pluggable";
  spec.key.conf = conf;
  spec.key.capacity = "unlimited";
  spec.key.device = "sim:h200";
  spec.pass_count = 1;
  return spec;
}

CellResult run_pluggable(const std::string& conf, VerifyLevel verify = VerifyLevel::Edges) {
  CellSpec spec = spec_of(conf);
  spec.verify = verify;
  return run_cell(spec);
}

CellResult run_faulty(const std::string& symbols) {
  return run_pluggable("library:" ALLOCMARK_FAULTY_PLUGGABLE "," + symbols);
}

bool says(const CellResult& result, const std::string& part) {
  INFO(result.reason);
  return result.reason.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a cell runs with the example library and gets the figures of the pool it uses") {
  if (!SimcuApi::find().present) return;
  const CellResult result = run_pluggable("library:" ALLOCMARK_PLUGGABLE_EXAMPLE);
  INFO(result.reason);
  CHECK(result.status == CellStatus::Ok);
  CHECK(result.oom_count == 0);
  CHECK(result.allocated_bytes_peak == result.requested_bytes_peak);
  CHECK(result.reserved_bytes_peak >= result.requested_bytes_peak);  // counted by simcuda
  CHECK(result.device_bytes_peak >= result.requested_bytes_peak);
  CHECK(result.residue_bytes == 0);
}

TEST_CASE("a call that is preempted in one pass does not make the time of a step or a pass") {
  if (!SimcuApi::find().present) return;
  constexpr double kStallNs = 200e6;
  std::string rows = "op,id,size,stream\nmark,step,0,0\n";
  for (int block = 1; block <= 10; ++block) {
    rows += "alloc," + std::to_string(block) + ",1000,0\nfree," + std::to_string(block) + ",0,0\n";
  }
  const TemporaryFolder folder;
  const std::string trace_path = folder.write("trace.csv", rows);
  // The stalled call, of every thirty, is in the first timed pass, behind two untimed ones.
  for (const std::uint32_t pass_count : {1u, 3u}) {
    CellSpec spec =
        spec_of("library:" ALLOCMARK_FAULTY_PLUGGABLE ",malloc:stall_malloc,free:good_free");
    spec.key.workload = "file:" + trace_path;
    spec.pass_count = pass_count;
    spec.host_target.reference_ns = 400;
    const CellResult result = run_cell(spec);
    INFO(result.reason);
    REQUIRE(result.passes.size() == pass_count);
    const PassSummary& pass = result.passes[0];
    CHECK(pass.allocator_ns_per_step > kStallNs / 2);
    CHECK(pass.allocator_undisturbed_ns_per_step < kStallNs / 2);
    CHECK(pass.allocator_undisturbed_ns < kStallNs / 2);
    CHECK(pass.allocator_scaled_ns < kStallNs / 2);
    CHECK(result.allocator_scaled_ns_per_step < kStallNs / 2);
    CHECK(pass.allocator_undisturbed_ns_per_step > 0);
    CHECK(impossibilities(result) == std::vector<std::string>());
  }
}

TEST_CASE("what a library does wrong is named in the cell's status") {
  if (!SimcuApi::find().present) return;
  const CellResult overlap = run_faulty("malloc:overlap_malloc,free:never_free");
  CHECK(overlap.status == CellStatus::Failed);
  CHECK(says(overlap, "live blocks never overlap"));
  const CellResult misaligned = run_faulty("malloc:misaligned_malloc,free:misaligned_free");
  CHECK(misaligned.status == CellStatus::Failed);
  CHECK(says(misaligned, "aligned"));
  const CellResult host = run_faulty("malloc:host_malloc,free:host_free");
  CHECK(host.status == CellStatus::Failed);
  CHECK(says(host, "inside device memory"));
  const CellResult other_runtime = run_faulty("malloc:null_malloc,free:never_free");
  CHECK(other_runtime.status == CellStatus::Failed);
  CHECK(says(other_runtime, "does not use the simulated CUDA runtime"));
  const CellResult missing = run_faulty("malloc:no_malloc");
  CHECK(missing.status == CellStatus::Failed);
  CHECK(says(missing, "no function no_malloc"));
}

TEST_CASE("figures are those of a pass that writes into no block, whatever is checked beside it") {
  if (!SimcuApi::find().present) return;
  const std::string conf =
      "library:" ALLOCMARK_FAULTY_PLUGGABLE ",malloc:watching_malloc,free:watching_free";
  const CellResult off = run_pluggable(conf, VerifyLevel::Off);
  CHECK(off.contents_placement_hash.empty());
  CHECK_FALSE(off.contents_oom_count);
  for (const VerifyLevel level : {VerifyLevel::Edges, VerifyLevel::Whole}) {
    const CellResult checked = run_pluggable(conf, level);
    INFO(to_string(level) << ": " << checked.reason);
    CHECK(checked.status == CellStatus::Ok);
    CHECK(checked.placement_hash == off.placement_hash);
    CHECK(checked.reserved_bytes_peak == off.reserved_bytes_peak);
    CHECK(checked.driver_calls == off.driver_calls);
    CHECK(checked.contents_oom_count == 0);
    CHECK(checked.contents_placement_hash != off.placement_hash);
    CHECK(std::ranges::count_if(checked.warnings, [](const std::string& text) {
            return text.starts_with("the pass that looks into blocks had other placements");
          }) == 1);
  }
}

TEST_CASE("a library that never gives memory back ends with what the device did not get back") {
  if (!SimcuApi::find().present) return;
  const CellResult result = run_faulty("malloc:good_malloc,free:never_free");
  CHECK(result.status == CellStatus::Ok);
  CHECK(result.residue_bytes > result.requested_bytes_peak);
  CHECK(std::any_of(result.warnings.begin(), result.warnings.end(), [](const std::string& text) {
    return text.find("did not get all of its memory back") != std::string::npos;
  }));
}

TEST_CASE("a cell says which calls the simulated runtime lacks") {
  if (!SimcuApi::find().present) return;
  const auto says_lacks = [](const CellResult& result) {
    return std::any_of(result.warnings.begin(), result.warnings.end(), [](const std::string& text) {
      return text.find("simcuda lacks") != std::string::npos &&
             text.find("cudaDestroyTextureObject") != std::string::npos;
    });
  };
  CHECK(says_lacks(run_faulty("malloc:unimplemented_malloc,free:unimplemented_free")));
  CHECK(!says_lacks(run_pluggable("library:" ALLOCMARK_PLUGGABLE_EXAMPLE)));
}

TEST_CASE("a soak says which calls simcuda lacks, too") {
  if (!SimcuApi::find().present) return;
  SoakSpec spec;
  spec.seconds = 1;
  spec.window_s = 0.5;
  spec.key.workload = "churn:events=400";
  spec.key.allocator = "pluggable";
  spec.key.conf =
      "library:" ALLOCMARK_FAULTY_PLUGGABLE ",malloc:unimplemented_malloc,free:unimplemented_free";
  spec.key.capacity = "unlimited";
  spec.key.device = "sim:h200";
  const SoakEnd lacking = run_soak(spec, [](const SoakWindow&) {});
  REQUIRE(lacking.warnings.size() >= 1);
  CHECK(lacking.warnings.back().find("cudaDestroyTextureObject") != std::string::npos);
  spec.key.conf = "library:" ALLOCMARK_PLUGGABLE_EXAMPLE;
  for (const std::string& warning : run_soak(spec, [](const SoakWindow&) {}).warnings)
    CHECK(warning.find("simcuda lacks") == std::string::npos);
}

}  // namespace allocmark
