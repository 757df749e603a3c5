// Goal: a cell turns a specification into a complete result, and every expected problem into a
// status. Runs on the null backend without a device, and on real backends where simcuda is the
// runtime of the process.
#include "harness/core/cell/cell.h"
#include "base/error.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/simcu_api.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {
namespace {

CellSpec spec_of(const std::string& workload, const std::string& allocator,
                 const std::string& capacity = "unlimited") {
  CellSpec spec;
  spec.key.workload = workload;
  spec.key.allocator = allocator;
  spec.key.capacity = capacity;
  spec.key.device = "sim:h200";
  return spec;
}

// A trace file that is gone when the test ends.
class TraceFile {
 public:
  explicit TraceFile(const std::string& rows)
      : path_(std::filesystem::temp_directory_path() /
              ("allocmark_cell_test_" + std::to_string(reinterpret_cast<std::uintptr_t>(this)) +
               ".csv")) {
    std::ofstream(path_) << "op,id,size,stream\n" << rows;
  }
  ~TraceFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] std::string workload() const { return "file:" + path_.string(); }

 private:
  std::filesystem::path path_;
};

bool has_warning(const CellResult& result, const std::string& part) {
  return std::any_of(result.warnings.begin(), result.warnings.end(),
                     [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

const std::vector<std::string> kDeviceAllocators = {"native", "async", "caching", "cub",
                                                    "thrust_pool"};

// The blocks of every segment of a map stand end to end and fill it.
void check_tiles(const nlohmann::json& map) {
  for (const auto& segment : map.at("segments")) {
    auto end = segment.at("address").get<std::uint64_t>();
    const std::uint64_t segment_end = end + segment.at("size_bytes").get<std::uint64_t>();
    for (const auto& block : segment.at("blocks")) {
      REQUIRE(block.at(0) == end);
      end += block.at(1).get<std::uint64_t>();
    }
    REQUIRE(end == segment_end);
  }
}

TEST_CASE("a cell on the null backend is complete") {
  const CellResult result = run_cell(spec_of("fuzz_1", "null", "8GiB"));
  INFO(result.reason);
  REQUIRE(result.status == CellStatus::Ok);
  REQUIRE(result.event_count > 1000);
  REQUIRE(result.pass_count == 3);
  REQUIRE(result.passes.size() == 3);
  REQUIRE(result.trial_count == 3);
  REQUIRE(result.trial_oom_count == 0);
  REQUIRE(result.allocate.total.count == 3 * result.allocate_count);
  REQUIRE(result.deallocate.total.count == 3 * result.deallocate_count);
  REQUIRE(result.trace_hash.size() == 16);
  REQUIRE(result.placement_hash.size() == 16);
  REQUIRE(has_warning(result, "capacity has no effect"));
  std::uint64_t count = 0;
  for (const SizeClassLatency& latency : result.size_classes) count += latency.allocate.total.count;
  REQUIRE(count == result.allocate.total.count);
}

TEST_CASE("a cell in rounds waits before each pass but the first, and hands over what it has") {
  int ends[2] = {-1, -1};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  CellSpec spec = spec_of("fuzz_1", "null");
  spec.in_rounds = true;
  spec.pass_count = 4;
  std::uint32_t wait_count = 0;
  std::thread parent([&] {
    const TurnMessage turn;
    char waits = 0;
    while (read(ends[1], &waits, 1) == 1) {
      ++wait_count;
      if (write(ends[1], &turn, sizeof turn) != sizeof turn) break;
    }
  });
  PassTurns turns(ends[0]);
  std::vector<CellResult> parts;
  const CellResult result =
      run_cell(spec, &turns, [&](const CellResult& part) { parts.push_back(part); });
  close(ends[0]);
  parent.join();
  close(ends[1]);
  REQUIRE(result.status == CellStatus::Ok);
  CHECK(wait_count == 3);
  CHECK(result.pass_count == 4);
  CHECK(result.passes_to_come == 0);
  CHECK(result.allocate.total.count == 4 * result.allocate_count);
  // After 1 and 2 passes; after 3 nothing, so that parts stay few.
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].passes_to_come == 3);
  CHECK(parts[0].allocate.total.count == result.allocate_count);
  // For the cells that are opened after it.
  CHECK(parts[0].packed_bytes.value_or(0) > 0);
  CHECK(parts[0].packed_bytes == result.packed_bytes);
  CHECK(parts[1].passes_to_come == 2);
  CHECK(parts[1].size_classes.size() == result.size_classes.size());
  // The time of waiting is between the passes, and not the cell's.
  CHECK(turns.waited_s() > 0);
  CHECK(result.passes[3].begin_s - result.passes[0].begin_s >= turns.waited_s());
  CHECK(result.wall_s + turns.waited_s() >= result.passes[3].begin_s);
}

TEST_CASE("host parts are scaled by the reference beside each pass") {
  CellSpec spec = spec_of("fuzz_1", "null");
  CHECK(run_cell(spec).scaled.allocate_p50_ns == 0);
  // A host that takes next to no time, for its clock either.
  spec.host_target = {.reference_ns = 1, .clock_ns = 0.01};
  spec.pass_count = 5;
  const CellResult result = run_cell(spec);
  REQUIRE(result.passes.size() == 5);
  for (const PassSummary& pass : result.passes) CHECK(pass.host_reference_ns > 1);
  CHECK(result.host_reference_ns > 1);
  CHECK(result.host_scale > 0);
  CHECK(result.host_scale < 1);
  // Each pass by its own reference: so the median of the one follows from that of the other.
  CHECK(result.host_scale == Approx(1 / result.host_reference_ns));
  CHECK(result.scaled.allocate_p50_ns < result.allocate.host.p50_ns);
}

TEST_CASE("a cell that times no host has modelled times all the same") {
  CellSpec spec = spec_of("fuzz_1", "caching");
  const CellResult with = run_cell(spec);
  spec.times_host = false;
  const CellResult without = run_cell(spec);
  CHECK(std::min(with.host_reference_ns, with.harness_overhead_ns_p50) > 0);
  CHECK(std::max(without.host_reference_ns, without.harness_overhead_ns_p50) == 0);
  CHECK(without.modelled_driver_ns_total > 0);
  CHECK(without.allocate.driver.count == with.allocate.driver.count);
}

TEST_CASE("bad input is a failed cell with a reason, and a file that cannot be written an error") {
  REQUIRE(run_cell(spec_of("no_such_workload", "null")).status == CellStatus::Failed);
  REQUIRE(run_cell(spec_of("fuzz_1", "no_such_allocator")).reason.find("no_such_allocator") !=
          std::string::npos);
  REQUIRE(run_cell(spec_of("fuzz_1", "null", "12 parsecs")).reason.find("--capacity") !=
          std::string::npos);
  CellSpec bad_conf = spec_of("fuzz_1", "null");
  bad_conf.key.conf = "no_such_key:1";
  REQUIRE(run_cell(bad_conf).status == CellStatus::Failed);
  CellSpec bad_policy = spec_of("fuzz_1", "null");
  bad_policy.key.on_oom = "pray";
  REQUIRE(run_cell(bad_policy).status == CellStatus::Failed);
  CellSpec bad_path = spec_of("fuzz_1", "null");
  bad_path.placements_path = "/no/such/folder/placements.csv";
  REQUIRE_THROWS_AS(run_cell(bad_path), FileError);
}

TEST_CASE("a truncated or inconsistent trace is a failed cell that names the place") {
  const TraceFile twice("alloc,1,100,0\nfree,1,0,0\nfree,1,0,0\n");
  const CellResult result = run_cell(spec_of(twice.workload(), "null"));
  REQUIRE(result.status == CellStatus::Failed);
  REQUIRE(result.allocate.total.count == 0);
  REQUIRE_FALSE(result.reason.empty());
}

TEST_CASE("a cell says what its requests need at least, or takes it from an earlier cell") {
  // Live together: 100 and 1000 bytes; rounded 512 and 1024. A hole of 512 is left for block 3.
  const TraceFile trace(
      "alloc,1,100,0\nalloc,2,1000,0\nfree,1,0,0\nalloc,3,600,0\nfree,2,0,0\nfree,3,0,0\n");
  CellSpec spec = spec_of(trace.workload(), "null");
  const CellResult result = run_cell(spec);
  CHECK(result.requested_bytes_peak == 1600);
  CHECK(result.rounded_bytes_peak == 2048);
  CHECK(result.packed_bytes == 2048);
  spec.packed_bytes = 4096;
  CHECK(run_cell(spec).packed_bytes == 4096);
  CHECK_FALSE(run_cell(spec_of("missing_workload", "null")).packed_bytes.has_value());
}

TEST_CASE("a timeline costs nothing but its file, whose peak is the cell's", "[simcuda]") {
  if (!SimcuApi::find().present) return;
  for (const std::string& allocator : kDeviceAllocators) {
    INFO(allocator);
    const TemporaryFolder folder;
    CellSpec spec = spec_of("fuzz_1", allocator);
    spec.pass_count = 0;
    const CellResult plain = run_cell(spec);
    spec.timeline_path = folder.path("t.json");
    const CellResult result = run_cell(spec);
    REQUIRE(result.status == CellStatus::Ok);
    CHECK(result.placement_hash == plain.placement_hash);
    CHECK(result.reserved_bytes_peak == plain.reserved_bytes_peak);
    const nlohmann::json timeline = nlohmann::json::parse(folder.read("t.json"));
    CHECK(timeline.at("cell_id") == spec.key.id());
    const auto requested = timeline.at("requested_bytes").get<std::vector<std::uint64_t>>();
    CHECK(requested.size() <= 2000);
    CHECK(*std::max_element(requested.begin(), requested.end()) == result.requested_bytes_peak);
    REQUIRE(timeline.at("snapshots").size() >= 40);
    for (const auto& map : timeline.at("snapshots")) check_tiles(map);
  }
}

TEST_CASE("a timeline that cannot be written is an error") {
  CellSpec spec = spec_of("fuzz_1", "null");
  spec.timeline_path = "/no/such/folder/t.json";
  REQUIRE_THROWS_AS(run_cell(spec), FileError);
}

TEST_CASE("an empty trace and a cell without timed passes are fine") {
  const TraceFile empty("");
  const CellResult result = run_cell(spec_of(empty.workload(), "null"));
  INFO(result.reason);
  REQUIRE(result.status == CellStatus::Ok);
  REQUIRE(has_warning(result, "no events"));
  CellSpec check_only = spec_of("fuzz_1", "null");
  check_only.pass_count = 0;
  const CellResult checked = run_cell(check_only);
  REQUIRE(checked.status == CellStatus::Ok);
  REQUIRE(checked.pass_count == 0);
  REQUIRE(checked.placement_hash.size() == 16);
}

TEST_CASE("without recording the passes run and latencies stay empty") {
  CellSpec spec = spec_of("fuzz_1", "null");
  spec.record = false;
  const CellResult result = run_cell(spec);
  REQUIRE(result.status == CellStatus::Ok);
  REQUIRE(result.passes.size() == 3);
  REQUIRE(result.allocate.total.count == 0);
}

TEST_CASE("a pass stores the allocator's time per step, as the cell does over all passes") {
  const TraceFile steps(
      "mark,step,0,0\nalloc,1,1000,0\nfree,1,0,0\nmark,step,0,0\nalloc,2,1000,0\nfree,2,0,0\n");
  const CellResult result = run_cell(spec_of(steps.workload(), "null"));
  INFO(result.reason);
  REQUIRE(result.passes.size() == 3);
  double low_ns = result.passes[0].allocator_ns_per_step;
  double high_ns = low_ns;
  for (const PassSummary& pass : result.passes) {
    CHECK(pass.request_latency_ns_p99 == 0);
    low_ns = std::min(low_ns, pass.allocator_ns_per_step);
    high_ns = std::max(high_ns, pass.allocator_ns_per_step);
  }
  CHECK(low_ns > 0);
  CHECK(result.allocator_ns_per_step >= low_ns);
  CHECK(result.allocator_ns_per_step <= high_ns);
}

TEST_CASE("a cell whose trace tells of requests says how long they took") {
  // One request that arrives at 1 ms, has its first token 0.5 ms later and its answer after 0.75
  // ms.
  const TraceFile served(
      "mark,server_start,0,0\nmark,idle_until,1000000,0\nalloc,1,1000,0\nkernel,0,500000,0\n"
      "sync,0,0,0\nmark,first_token,1000000,0\nfree,1,0,0\nkernel,0,250000,0\nsync,0,0,0\n"
      "mark,request_done,1000000,0\n");
  const CellResult result = run_cell(spec_of(served.workload(), "null"));
  INFO(result.reason);
  REQUIRE(result.requests.has_value());
  CHECK(result.requests->latency.count == result.pass_count);
  CHECK(result.requests->ideal_latency.max_ns == 750'000);
  CHECK(result.requests->ideal_first_token.max_ns == 500'000);
  CHECK(result.requests->latency.max_ns >= 750'000);
  for (const PassSummary& pass : result.passes) {
    CHECK(pass.request_latency_ns_p99 >= 750'000);
    CHECK(pass.request_latency_ns_p99 <= result.requests->latency.max_ns);
    CHECK(pass.allocator_ns_per_step == 0);
  }
  // The marks of requests are no steps.
  CHECK(result.allocator_ns_per_step == 0);
  CHECK_FALSE(run_cell(spec_of("fuzz_1", "null")).requests.has_value());
}

TEST_CASE("a cell for a device whose runtime is not loaded says so") {
  CellSpec spec = spec_of("fuzz_1", "native");
  spec.key.device = SimcuApi::find().present ? "cuda:0" : "sim:h200";
  const CellResult result = run_cell(spec);
  REQUIRE(result.status == CellStatus::Failed);
  REQUIRE(result.reason.find("runtime") != std::string::npos);
}

TEST_CASE("two runs of a cell agree in placements, failures and modelled time", "[simcuda]") {
  if (!SimcuApi::find().present) return;
  for (const std::string workload : {"fuzz_1", "fuzz_r1"}) {
    for (const std::string& allocator : kDeviceAllocators) {
      const CellResult first = run_cell(spec_of(workload, allocator, "1.02x"));
      const CellResult second = run_cell(spec_of(workload, allocator, "1.02x"));
      INFO(workload << " on " << allocator << ": " << first.reason);
      REQUIRE(first.status == CellStatus::Ok);
      CHECK(first.placement_hash == second.placement_hash);
      CHECK(first.oom_count == second.oom_count);
      CHECK(first.oom_cause_counts == second.oom_cause_counts);
      CHECK(first.device_bytes_peak == second.device_bytes_peak);
      CHECK(first.residue_bytes == 0);
      for (const std::string& warning : first.warnings) {
        INFO(warning);
        CHECK(warning.find("not deterministic") == std::string::npos);
      }
      std::uint64_t cause_sum = 0;
      for (const std::uint64_t count : first.oom_cause_counts) cause_sum += count;
      CHECK(cause_sum == first.oom_count);
    }
  }
}

TEST_CASE("beside other cells the device's memory is nobody's alone", "[simcuda]") {
  if (!SimcuApi::find().present) return;
  CellSpec spec = spec_of("fuzz_1", "caching", "unlimited");
  CHECK(run_cell(spec).device_bytes_peak > 0);
  spec.shares_device = true;
  const CellResult result = run_cell(spec);
  REQUIRE(result.status == CellStatus::Ok);
  CHECK_FALSE(result.device_bytes_peak.has_value());
  CHECK_FALSE(result.residue_bytes.has_value());
  REQUIRE_FALSE(result.passes.empty());
  for (const PassSummary& pass : result.passes) CHECK_FALSE(pass.residue_bytes.has_value());
  CHECK(result.reserved_bytes_peak.has_value());  // the allocator's own count
}

TEST_CASE("what is checked changes no figure of a pool with several streams", "[simcuda]") {
  if (!SimcuApi::find().present) return;
  const auto run = [](VerifyLevel level) {
    CellSpec spec = spec_of("fuzz_r1", "async", "1.02x");
    spec.verify = level;
    spec.pass_count = 1;
    return run_cell(spec);
  };
  const CellResult off = run(VerifyLevel::Off);
  REQUIRE(off.oom_count > 0);
  for (const VerifyLevel level : {VerifyLevel::Edges, VerifyLevel::Whole}) {
    const CellResult checked = run(level);
    CHECK(checked.placement_hash == off.placement_hash);
    CHECK(checked.oom_count == off.oom_count);
    CHECK(checked.oom_cause_counts == off.oom_cause_counts);
    CHECK(checked.reserved_bytes_peak == off.reserved_bytes_peak);
    CHECK(checked.device_bytes_peak == off.device_bytes_peak);
    CHECK(checked.driver_calls == off.driver_calls);
    CHECK(checked.contents_oom_count == off.oom_count);
    CHECK(checked.contents_placement_hash == off.placement_hash);
  }
}

TEST_CASE("the capacity is enforced by the page and given back afterwards", "[simcuda]") {
  if (!SimcuApi::find().present) return;
  const std::uint64_t free_bytes = device_free_bytes();
  // Of a request within and one beyond the capacity the second fails.
  const TraceFile trace("alloc,1,2097152,0\nalloc,2,31457280,0\nfree,2,0,0\n");
  const CellResult result = run_cell(spec_of(trace.workload(), "native", "20MiB"));
  INFO(result.reason);
  REQUIRE(result.status == CellStatus::Ok);
  REQUIRE(result.capacity_bytes == 20u << 20);
  REQUIRE(result.oom_count == 1);
  REQUIRE(result.oom_first->event_index == 1);
  REQUIRE(result.oom_first->cause == OomCause::Capacity);
  REQUIRE(result.skipped_free_count == 1);
  REQUIRE(result.trial_oom_count == 3);
  // More where a failed request has given back the pages of destroyed streams.
  REQUIRE(device_free_bytes() >= free_bytes);

  CellSpec stop = spec_of(trace.workload(), "native", "20MiB");
  stop.key.on_oom = "stop";
  REQUIRE(run_cell(stop).status == CellStatus::OomStopped);

  const CellResult too_large = run_cell(spec_of(trace.workload(), "native", "900TiB"));
  REQUIRE(too_large.status == CellStatus::Failed);
  REQUIRE(too_large.reason.find("larger than what the device has free") != std::string::npos);
  const CellResult no_limit = run_cell(spec_of(trace.workload(), "native", "20MiB@limit"));
  REQUIRE(no_limit.status == CellStatus::Skipped);
  REQUIRE(device_free_bytes() >= free_bytes);
}

}  // namespace
}  // namespace allocmark
