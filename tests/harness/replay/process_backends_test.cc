// Goal: several processes of one trace share the device and nothing else. Cells on the simulated
// device, where every number is known in advance.
#include "harness/core/replay/process_backends.h"

#include <cstdint>
#include <fstream>
#include <string>

#include "harness/core/cell/cell.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {
namespace {

const std::string kTwoProcesses = "# process: 0 me\n# process: 1 neighbour\n";

// A neighbour that was busy and is idle now, then a large request of mine.
std::string rows(const std::string& between) {
  return "op,id,size,stream\nalloc,1,314572800,1\nfree,1,0,0\n" + between +
         "alloc,2,314572800,0\nfree,2,0,0\n";
}

CellResult run(const std::string& text, const std::string& allocator,
               const std::string& conf = "") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/two.csv";
  std::ofstream(path) << text;
  CellSpec spec;
  spec.key = {.workload = "file:" + path,
              .allocator = allocator,
              .conf = conf,
              .device = "sim:h200",
              .capacity = "400MiB"};
  spec.pass_count = 1;
  return run_cell(spec);
}

std::int64_t counter_of(const CellResult& result, const std::string& name) {
  for (const auto& [known, value] : result.counters) {
    if (known == name) return value;
  }
  return -1;
}

TEST_CASE("a neighbour's cache pushes a process out of memory") {
  const CellResult result = run(kTwoProcesses + rows(""), "caching");
  INFO(result.reason);
  REQUIRE(result.status == CellStatus::Ok);
  CHECK(result.oom_count == 1);
  CHECK(result.oom_cause_counts[static_cast<std::size_t>(OomCause::OtherProcess)] == 1);
  CHECK(counter_of(result, "process0.requests") == 1);
  CHECK(counter_of(result, "process0.out_of_memory") == 1);
  CHECK(counter_of(result, "process1.out_of_memory") == 0);
  CHECK(counter_of(result, "process1.reserved_bytes_peak") == 314572800);
  REQUIRE(result.warnings.size() == 1);
  CHECK(result.warnings[0] == "out of memory by process: process 0 (me): 1 of 1 requests");
  CHECK(result.residue_bytes == 0);
}

TEST_CASE("against another process's cache its owner's empty_cache and a fraction are tried") {
  const CellResult result = run(kTwoProcesses + rows(""), "caching");
  REQUIRE(result.oom_first.has_value());
  CHECK(result.oom_first->cause == OomCause::OtherProcess);
  CHECK(result.oom_first->free_other_processes_bytes == 314572800);
  CHECK(counter_of(result, "process1.cached_bytes_at_oom") == 314572800);
  CHECK(counter_of(result, "remedy.empty_cache.out_of_memory") == 0);
  // 300 MiB each: their peaks do not fit side by side into 400.
  CHECK(counter_of(result, "remedy.fraction.impossible") == 1);
  CHECK(counter_of(result, "remedy.fraction.out_of_memory") == -1);
}

TEST_CASE("a fraction is proposed where the other process can live with it") {
  // The neighbour caches two segments of 100 MiB and never needs more than one; I need 250.
  const std::string text =
      "op,id,size,stream\nalloc,1,104857600,1\nfree,1,0,0\nalloc,2,125829120,1\nfree,2,0,0\n"
      "alloc,3,262144000,0\nfree,3,0,0\n";
  const CellResult result = run(kTwoProcesses + text, "caching");
  REQUIRE(result.oom_count == 1);
  CHECK(counter_of(result, "remedy.fraction.process") == 1);
  CHECK(counter_of(result, "remedy.fraction.out_of_memory") == 0);
  const std::int64_t limit_bytes = counter_of(result, "remedy.fraction.limit_bytes");
  CHECK(limit_bytes >= 125829120);
  CHECK(limit_bytes <= (400 << 20) - 262144000);
}

TEST_CASE("where nobody else caches, no remedy against it is tried") {
  const std::string text = "op,id,size,stream\nalloc,1,209715200,1\nalloc,2,314572800,0\n";
  const CellResult result = run(kTwoProcesses + text, "caching");
  REQUIRE(result.oom_count == 1);
  CHECK(result.oom_first->cause == OomCause::Capacity);
  CHECK(counter_of(result, "remedy.empty_cache.out_of_memory") == -1);
}

TEST_CASE("in one process the cache is given back when memory is short") {
  CHECK(run(rows(""), "caching").oom_count == 0);
}

TEST_CASE("a process gives back its own cache and no other's") {
  CHECK(run(kTwoProcesses + rows("empty_cache,0,0,1\n"), "caching").oom_count == 0);
  CHECK(run(kTwoProcesses + rows("empty_cache,0,0,0\n"), "caching").oom_count == 1);
}

TEST_CASE("allocators that keep nothing do not disturb each other") {
  CHECK(run(kTwoProcesses + rows(""), "native").oom_count == 0);
}

TEST_CASE("allocators whose instances share something cannot stand for processes") {
  CHECK(processes_refusal("caching", "max_split_size_mb:64").empty());
  CHECK(processes_refusal("vmm_stitch", "").empty());
  CHECK_FALSE(processes_refusal("torch", "").empty());
  CHECK_FALSE(processes_refusal("pluggable", "path:x.so").empty());
  CHECK_FALSE(processes_refusal("rmm", "resource:cuda_async").empty());
  CHECK_FALSE(processes_refusal("caching", "backend:cudaMallocAsync").empty());
  const CellResult result = run(kTwoProcesses + rows(""), "async");
  CHECK(result.status == CellStatus::Skipped);
  CHECK(result.reason.find("pools give each other memory") != std::string::npos);
}

}  // namespace
}  // namespace allocmark
