// Goal: cells of backends whose memory is the host's ask for what the workload asks of the host,
// are checked by the host's accounts, and stay within what the machine has. Method: small traces on
// simcuda with counts by hand, and backends with one fault each under the verifier.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/process_memory.h"
#include "harness/core/cell/cell.h"
#include "harness/core/check/verify.h"
#include "harness/core/replay/device_work.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/core/replay/trace_compiler.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

using namespace allocmark;

namespace {

CellResult run_host_rows(const std::string& rows, const std::string& allocator,
                         const std::string& conf = "", const std::string& capacity = "unlimited") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/t.csv";
  std::ofstream(path) << "op,id,size,stream,tensor\n" << rows;
  CellSpec spec;
  spec.key = {.workload = "file:" + path,
              .allocator = allocator,
              .conf = conf,
              .device = "sim:h200",
              .capacity = capacity};
  return run_cell(spec);
}

std::uint64_t host_count_of(const CellResult& cell, OomCause cause) {
  return cell.oom_cause_counts[static_cast<std::size_t>(cause)];
}

bool host_cell_warns(const CellResult& cell, const std::string& part) {
  for (const std::string& warning : cell.warnings)
    if (warning.find(part) != std::string::npos) return true;
  return false;
}

// A device buffer, and three of 5, 5 and 3 MiB on the host of which a stream copies one.
const char* const kOffload =
    "alloc,9,1048576,0,\n"
    "host_alloc,1,5242880,0,\n"
    "host_alloc,2,5242880,0,\n"
    "kernel,0,100000,1,\n"
    "host_record,1,0,1,\n"
    "host_free,1,0,0,\n"
    "host_free,2,0,0,\n"
    "host_alloc,3,3145728,0,\n"
    "host_free,3,0,0,\n"
    "free,9,0,0,\n";

enum class HostFault : std::uint8_t { None, Unpinned, PinsTooLittle, Scribbles, ReportsTooLittle };

class FaultyHost final : public Backend {
 public:
  explicit FaultyHost(HostFault fault) : fault_(fault) {}
  ~FaultyHost() override {
    for (const auto& [pointer, size_bytes] : all_)
      fault_ == HostFault::Unpinned ? std::free(pointer) : (void)cudaFreeHost(pointer);
  }
  AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t /*stream*/) override {
    void* pointer = nullptr;
    if (fault_ == HostFault::Unpinned) {
      pointer = std::aligned_alloc(4096, size_bytes);
    } else if (cudaMallocHost(&pointer,
                              fault_ == HostFault::PinsTooLittle ? size_bytes / 2 : size_bytes) !=
               cudaSuccess) {
      return {.pointer = nullptr, .status = AllocateStatus::OutOfMemory};
    }
    if (fault_ == HostFault::Scribbles && !all_.empty())
      *static_cast<unsigned char*>(all_.begin()->first) ^= 0xFF;
    all_[pointer] = size_bytes;
    held_bytes_ += size_bytes;
    return {.pointer = pointer, .status = AllocateStatus::Ok};
  }
  void deallocate(void* /*pointer*/, std::uint64_t /*size_bytes*/,
                  cudaStream_t /*stream*/) override {}
  [[nodiscard]] MemoryStats stats(cudaStream_t /*stream*/) const override {
    MemoryStats stats;
    stats.reserved_bytes = fault_ == HostFault::ReportsTooLittle ? held_bytes_ / 2 : held_bytes_;
    return stats;
  }

 private:
  HostFault fault_;
  std::map<void*, std::uint64_t> all_;
  std::uint64_t held_bytes_ = 0;
};

std::string rule_broken_by(HostFault fault) {
  const SimcuApi simcu = SimcuApi::find();
  FaultyHost backend(fault);
  const std::unique_ptr<DeviceWork> work = make_device_work(simcu);
  const StreamSet streams(1, /*has_device=*/true);
  const std::vector<Event> events{{.id = 1, .size_bytes = 64 * kKiB, .kind = EventKind::Alloc},
                                  {.id = 2, .size_bytes = 64 * kKiB, .kind = EventKind::Alloc},
                                  {.id = 1, .kind = EventKind::Free},
                                  {.id = 2, .kind = EventKind::Free}};
  TraceCompiler compiler;
  std::vector<ReplayStep> steps;
  compiler.compile(events, steps);
  Verifier verifier(VerifySetup{
      .replay = {.backend = &backend,
                 .work = work.get(),
                 .streams = streams.all(),
                 .side = MemorySide::Host},
      .capabilities = {.real_memory = true, .side = MemorySide::Host, .alignment_bytes = 256},
      .simcu = simcu,
      .facts = compiler.facts(),
      .level = VerifyLevel::Whole,
      .capacity_bytes = std::uint64_t{1} << 40,
      .device_bytes_before = used_bytes_of(MemorySide::Host, simcu)});
  verifier.run({.events = events, .steps = steps, .slot_count = compiler.slot_count()});
  verifier.finish();
  return verifier.report().broken_rule.value_or("");
}

bool simcuda_is_here() { return SimcuApi::find().present; }

}  // namespace

TEST_CASE("a backend of the host gets what the workload asks of the host", "[simcuda]") {
  if (!simcuda_is_here()) return;
  const CellResult cached = run_host_rows(kOffload, "host_caching");
  INFO(cached.reason);
  REQUIRE(cached.status == CellStatus::Ok);
  CHECK(cached.allocate_count == 3);
  CHECK(cached.requested_bytes_peak == 10 * kMiB);
  CHECK(cached.reserved_bytes_peak == 20 * kMiB);  // 8, 8 and 4
  CHECK(cached.device_bytes_peak == 20 * kMiB);
  CHECK(cached.residue_bytes == 0u);
  CHECK_FALSE(cached.unordered_reuse_count.has_value());
  CHECK(host_cell_warns(cached, "all numbers are of pinned memory of the host"));
  CHECK_FALSE(host_cell_warns(cached, "not deterministic"));
  for (const char* const allocator : {"host_exact", "cupy_pinned", "rmm_pinned"}) {
    const CellResult cell = run_host_rows(kOffload, allocator);
    INFO(allocator << ": " << cell.reason);
    REQUIRE(cell.status == CellStatus::Ok);
    CHECK(cell.reserved_bytes_peak == (allocator[0] == 'c' ? 13 * kMiB : 10 * kMiB));
    CHECK(cell.residue_bytes == 0u);
  }
  const CellResult pool = run_host_rows(kOffload, "host_pool");
  INFO(pool.reason);
  CHECK(pool.reserved_bytes_peak == 32 * kMiB);
  CHECK(pool.residue_bytes == 0u);
}

TEST_CASE("a workload that asks nothing of the host is asked of it whole", "[simcuda]") {
  if (!simcuda_is_here()) return;
  const CellResult cell = run_host_rows("alloc,1,5242880,0,\nfree,1,0,0,\n", "host_caching");
  INFO(cell.reason);
  CHECK(cell.status == CellStatus::Ok);
  CHECK(cell.reserved_bytes_peak == 8 * kMiB);
  CHECK(host_cell_warns(cell, "what it asks of the device is asked of the host here"));
}

TEST_CASE("a cell pins no more than its capacity, and says why requests fail", "[simcuda]") {
  if (!simcuda_is_here()) return;
  std::string rows;
  for (int id = 1; id <= 5; ++id) rows += "host_alloc," + std::to_string(id) + ",104857600,0,\n";
  const CellResult exact = run_host_rows(rows, "host_exact", "", "450MiB");
  INFO(exact.reason);
  CHECK(exact.capacity_bytes == 450 * kMiB);
  CHECK(host_count_of(exact, OomCause::Capacity) == 1);
  CHECK(exact.device_bytes_peak == 400 * kMiB);
  // Blocks of 128 MiB.
  const CellResult cached = run_host_rows(rows, "host_caching", "", "450MiB");
  CHECK(cached.device_bytes_peak == 384 * kMiB);
  CHECK(host_count_of(cached, OomCause::Rounding) == 2);
  const CellResult pool = run_host_rows(rows, "host_pool", "", "450MiB");
  CHECK(pool.oom_count >= 1);
  CHECK(pool.device_bytes_peak <= 450 * kMiB);
}

TEST_CASE("a capacity that the machine cannot pin is refused", "[simcuda]") {
  if (!simcuda_is_here()) return;
  const CellResult cell = run_host_rows(kOffload, "host_exact", "", "64TiB");
  CHECK(cell.status == CellStatus::Failed);
  CHECK(cell.reason.find("more than") == std::string::npos);
  CHECK(cell.reason.find("larger than what this machine can pin") != std::string::npos);
  const CellResult open = run_host_rows(kOffload, "host_exact");
  CHECK(open.capacity_bytes > 0);
  CHECK(open.capacity_bytes <= available_memory_bytes() + 4 * kGiB);
  const CellResult beyond =
      run_host_rows("host_alloc,1,70368744177664,0,\n", "host_exact");  // 64 TiB
  CHECK(beyond.oom_count == 1);
  CHECK(host_cell_warns(beyond, "this machine may pin"));
}

// pytorch 192722: in 2.13 a free block of 150 MiB serves a request for 200 MiB.
TEST_CASE("PyTorch 2.13's short block is a broken rule", "[simcuda]") {
  if (!simcuda_is_here()) return;
  const std::string rows =
      "host_alloc,1,157286400,0,\nhost_free,1,0,0,\nhost_alloc,2,209715200,0,\nhost_free,2,0,0,\n";
  const CellResult short_block =
      run_host_rows(rows, "host_caching@2.13", "pinned_max_round_threshold_mb:1");
  CHECK(short_block.status == CellStatus::Failed);
  INFO(short_block.reason);
  CHECK(short_block.reason.find("a block lies inside pinned memory of the host") !=
        std::string::npos);
  CHECK(run_host_rows(rows, "host_caching@2.14", "pinned_max_round_threshold_mb:1").status ==
        CellStatus::Ok);
}

TEST_CASE("the verifier names what is wrong with memory of the host", "[simcuda]") {
  if (!simcuda_is_here()) return;
  CHECK(rule_broken_by(HostFault::None).empty());
  for (const HostFault fault : {HostFault::Unpinned, HostFault::PinsTooLittle}) {
    INFO(rule_broken_by(fault));
    CHECK(rule_broken_by(fault).find("inside pinned memory of the host") != std::string::npos);
  }
  CHECK(rule_broken_by(HostFault::Scribbles).find("contents survive") != std::string::npos);
  CHECK(rule_broken_by(HostFault::ReportsTooLittle).find("reserved_bytes is") != std::string::npos);
}
