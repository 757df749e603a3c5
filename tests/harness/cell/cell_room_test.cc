// Goal: what a cell is held against: what the card leaves, a limit of the process, and requests
// that failed when the trace was recorded. On simcuda, where every number is known in advance.
#include <cstdint>
#include <fstream>
#include <string>

#include "harness/core/cell/cell.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/simcu_api.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {
namespace {

// Caching on a trace of these rows.
CellResult run_rows(const std::string& rows, const std::string& capacity = "unlimited",
                    const std::string& conf = "") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/t.csv";
  std::ofstream(path) << "op,id,size,stream,tensor\n" << rows;
  CellSpec spec;
  spec.key = {.workload = "file:" + path,
              .allocator = "caching",
              .conf = conf,
              .device = "sim:h200",
              .capacity = capacity};
  return run_cell(spec);
}

std::uint64_t count_of(const CellResult& cell, OomCause cause) {
  return cell.oom_cause_counts[static_cast<std::size_t>(cause)];
}

TEST_CASE("a limit of the process is told from the card, by conf and by capacity", "[simcuda]") {
  if (!SimcuApi::find().present) return;
  std::string rows;
  for (int id = 1; id <= 6; ++id) rows += "alloc," + std::to_string(id) + ",104857600,0,\n";
  // 487 MiB.
  const CellResult half = run_rows(rows, "unlimited", "per_process_memory_fraction:0.0034");
  INFO(half.reason);
  CHECK(half.oom_count == 2);
  CHECK(count_of(half, OomCause::Limit) == 2);
  REQUIRE(half.oom_first.has_value());
  CHECK(half.oom_first->limit_bytes == static_cast<std::uint64_t>(0.0034 * 150109880320));
  CHECK(half.oom_first->live_bytes == 419430400);
  CHECK(half.oom_first->device_left_bytes == half.capacity_bytes);
  const CellResult limited = run_rows(rows, "450MiB@limit");
  CHECK(count_of(limited, OomCause::Limit) == 2);
  CHECK(limited.oom_first->limit_bytes == 450u << 20);
  CHECK(limited.oom_first->device_left_bytes > 450u << 20);
  const CellResult held_back = run_rows(rows, "450MiB");
  CHECK(count_of(held_back, OomCause::Capacity) == 2);
  CHECK_FALSE(held_back.oom_first->limit_bytes.has_value());
}

TEST_CASE("what a private pool has free is kept from other requests", "[simcuda]") {
  if (!SimcuApi::find().present) return;
  const std::string rows =
      "pool_create,1,0,0,\npool_begin,1,1,0,\nalloc,1,419430400,0,\npool_end,1,0,0,\n"
      "pool_release,1,0,0,\nfree,1,0,0,\nalloc,2,209715200,0,\nfree,2,0,0,\n";
  const CellResult kept = run_rows(rows, "450MiB@limit");
  INFO(kept.reason);
  CHECK(kept.oom_count == 1);
  CHECK(count_of(kept, OomCause::Stranded) == 1);
  // Without the pool the same request fits.
  const CellResult plain =
      run_rows("alloc,1,419430400,0,\nfree,1,0,0,\nalloc,2,209715200,0,\n", "450MiB@limit");
  CHECK(plain.oom_count == 0);
}

TEST_CASE("without a capacity a cell is held against what the card leaves", "[simcuda]") {
  if (!SimcuApi::find().present) return;
  const std::uint64_t left_bytes = usable_device_bytes(true);
  const CellResult fits = run_rows("alloc,1," + std::to_string(left_bytes) + ",0,\n");
  CHECK(fits.capacity_bytes == left_bytes);
  CHECK(fits.oom_count == 0);
  // Below the card's total, and above what its context leaves.
  const CellResult beyond = run_rows("alloc,1," + std::to_string(left_bytes + 1) + ",0,\n");
  CHECK(beyond.oom_count == 1);
  CHECK(beyond.oom_first->cause == OomCause::Capacity);
}

TEST_CASE("what failed when the trace was recorded is asked, and counts as nothing", "[simcuda]") {
  if (!SimcuApi::find().present) return;
  const std::string failed = "alloc,2,1048576000,0,failed\nfree,2,0,0,\n";
  const std::string text = "alloc,1,104857600,0,\n" + failed + "alloc,3,104857600,0,\n";
  const CellResult tight = run_rows(text, "1.05x");
  INFO(tight.reason);
  CHECK(tight.requested_bytes_peak == 209715200);
  CHECK(tight.capacity_bytes == 220200960);
  CHECK(tight.allocate_count == 2);
  CHECK(tight.oom_count == 0);
  CHECK(tight.trial_oom_count == 0);
  CHECK(tight.skipped_free_count == 0);
  CHECK(tight.failed_before_count == 1);
  CHECK(tight.failed_again_count == 1);
  CHECK(run_rows(text).failed_again_count == 0);
  // The program ended with it: then it is what the job wants.
  const CellResult ended = run_rows("alloc,1,104857600,0,\n" + failed, "500MiB");
  CHECK(ended.requested_bytes_peak == 1153433600);
  CHECK(ended.oom_count == 1);
  CHECK(ended.failed_before_count == 0);
}

}  // namespace
}  // namespace allocmark
