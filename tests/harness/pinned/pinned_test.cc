// Goal: a workload's requests for pinned memory are replayed with the right clock, and what users
// saw is what comes out. Method: traces of a few events with sizes and times counted by hand;
// published figures through workloads that describe the jobs.
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/caching/config.h"
#include "allocators/caching/release.h"
#include "base/bytes.h"
#include "harness/core/pinned/host_replay.h"
#include "harness/core/pinned/pinned_rows.h"
#include "harness/core/pinned/pool_replay.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "workloads/open_workload.h"

using namespace allocmark;
using caching::require_rules;
using host_caching::PinKind;

namespace {

PinnedProgram program_of(const std::string& workload) {
  return read_pinned_program(*open_workload(workload, 1));
}

PinnedProgram program_of_rows(const std::string& rows) {
  const TemporaryFolder folder;
  return program_of("file:" + folder.write("t.csv", "op,id,size,stream\n" + rows));
}

PinnedUse cached(const PinnedProgram& program, std::string_view release,
                 std::string_view conf = "") {
  const auto config = caching::parse_strict(conf, require_rules(release, "a test"));
  REQUIRE_FALSE(config.error.has_value());
  return replay_cached(program, config.settings);
}

double gib(std::uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kGiB); }

}  // namespace

TEST_CASE("published figures hold within 1 % through workloads that describe the jobs") {
  struct Report {
    std::string_view name;
    std::string workload;
    double asked_gib;
    double pinned_gib;
    std::string_view release;
  };
  const Report reports[] = {
      {"sgl-project/sglang 36562", "offload:kv_cache,buffer_bytes=20.4GiB", 20.4, 32, "2.11"},
      {"LMCache 1147 (its 2.7 rounds as 2.9)", "offload:kv_cache,buffer_bytes=5GiB", 5, 8, "2.9"},
      {"LMCache 1147", "offload:kv_cache,buffer_bytes=4.1GiB", 4.1, 8, "2.9"},
      {"AnimaLoraStudio 511", "offload:weights,layers=28,tensor_mib=96/36/9,tensor_count=3/3/2",
       11.32, 16.63, "2.11"},
      {"wtdcode/vllm-backport 67", "offload:kv_cache,buffer_bytes=2.250GiB", 2.25, 4.008, "2.13"},
      {"wtdcode/vllm-backport 67", "offload:kv_cache,buffers=5,buffer_bytes=1.20GiB", 6.0, 10.01,
       "2.13"},
      {"sglang 39021, its plan on a host of 60 GiB",
       "offload:kv_cache,buffers=34,buffer_bytes=1.2024GiB", 40.88, 68, "2.11"},
      {"vllm 53042, one of four ranks", "offload:kv_cache,buffers=24,buffer_bytes=2236817408B",
       50.0, 96, "2.11"},
  };
  for (const Report& report : reports) {
    INFO(report.name << " " << report.workload);
    const PinnedProgram program = program_of(report.workload);
    CHECK(std::abs(gib(program.asked_bytes_peak) / report.asked_gib - 1) < 0.01);
    CHECK(std::abs(gib(cached(program, report.release).pinned_bytes_peak) / report.pinned_gib - 1) <
          0.01);
    for (const PinKind kind : {PinKind::HostAlloc, PinKind::HostRegister}) {
      const PinnedUse exact = replay_exact(program, kind);
      CHECK(exact.pinned_bytes_peak >= program.asked_bytes_peak);
      CHECK(exact.pinned_bytes_peak <= program.asked_bytes_peak + 2 * kMiB);
    }
  }
}

TEST_CASE("a block is used again once its copy is done, and not before") {
  // 3 MiB, used by a copy of 1 ms; the host then works, and asks for 4 MiB: the same size class.
  const auto rows = [](const std::string& work) {
    return "host_alloc,1,3145728,0\nkernel,0,1000000,1\nhost_record,1,0,1\nhost_free,1,0,0\n" +
           work + "host_alloc,2,4194304,0\nhost_free,2,0,0\n";
  };
  CHECK(cached(program_of_rows(rows("")), "2.12").pinned_bytes_peak == 8 * kMiB);
  CHECK(cached(program_of_rows(rows("host,0,999999,0\n")), "2.12").pinned_bytes_peak == 8 * kMiB);
  CHECK(cached(program_of_rows(rows("host,0,1000000,0\n")), "2.12").pinned_bytes_peak == 4 * kMiB);
  CHECK(cached(program_of_rows(rows("sync,0,0,0\n")), "2.12").pinned_bytes_peak == 4 * kMiB);
  // A kernel that only a wait ends.
  const std::string gated =
      "host_alloc,1,3145728,0\nbusy,0,0,1\nhost_record,1,0,1\nhost_free,1,0,0\n";
  const std::string next = "host_alloc,2,4194304,0\nhost_free,2,0,0\n";
  CHECK(cached(program_of_rows(gated + "host,0,9000000,0\n" + next), "2.12").pinned_bytes_peak ==
        8 * kMiB);
  CHECK(cached(program_of_rows(gated + "sync,0,0,0\n" + next), "2.12").pinned_bytes_peak ==
        4 * kMiB);
}

TEST_CASE("calls are counted and charged as on hosts of H200s") {
  const PinnedProgram program = program_of_rows(
      "host_alloc,1,1048576,0\nhost_free,1,0,0\nhost_alloc,2,1048576,0\nhost_alloc,3,5000,0\n");
  const PinnedUse unset = cached(program, "2.11");
  CHECK(unset.pin_count == 2);
  CHECK(unset.unpin_count == 0);
  // A half of a slab, and a 256th.
  CHECK(unset.pinning_ns == 300'000 + 2'343);
  const PinnedUse threads =
      cached(program, "2.11", "pinned_use_cuda_host_register:True,pinned_num_register_threads:4");
  CHECK(threads.pinning_ns == (102'000 + 177'000 / 4) + (45'446 + 6'344 / 4));
  const PinnedUse exact = replay_exact(program, PinKind::HostAlloc);
  CHECK(exact.pin_count == 3);
  CHECK(exact.unpin_count == 1);
  // The first block's slab goes with it; the others share one of 2 MiB.
  CHECK(exact.pinned_bytes_peak == 2 * kMiB);
  CHECK(exact.pinning_ns == 2 * 600'000 + 238'000);
  const PinnedUse registered = replay_exact(program, PinKind::HostRegister);
  CHECK(registered.pinning_ns == 2 * 279'000 + 51'790 + 56'000);
  CHECK(program.request_count == 3);
  CHECK(program.device_bytes_peak == 0);
}

TEST_CASE("an exact free waits for the copies of its block") {
  const PinnedProgram program = program_of_rows(
      "host_alloc,1,1048576,0\nkernel,0,5000000,1\nhost_record,1,0,1\nhost_free,1,0,0\n"
      "kernel,0,7000000,2\nhost_alloc,2,1048576,0\nhost_free,2,0,0\n");
  // A wait is no pinning.
  CHECK(replay_exact(program, PinKind::HostAlloc).pinning_ns == 2 * (600'000 + 238'000));
  CHECK(replay_exact(program, PinKind::HostAlloc).pinned_bytes_peak == 2 * kMiB);
}

// The bytes that each block took on an H200 (results/published/2026-11-27-h200-pinned, "What an
// exact block takes"); below 64 KiB the process's own books come on top.
TEST_CASE("exact blocks take what the driver takes for them") {
  struct Measured {
    std::uint64_t size_bytes, count, taken_bytes;
  };
  for (const Measured& one : {Measured{65537, 200, 73400},
                              {300000, 100, 356516},
                              {524289, 100, 713032},
                              {700000, 60, 1048576},
                              {1048576, 60, 1048576},
                              {1048577, 60, 2097152},
                              {1572864, 40, 2097152},
                              {2097152, 40, 2097152},
                              {2097153, 40, 2101248},
                              {3145728, 40, 3145728},
                              {5242881, 20, 5246976},
                              {35000000, 8, 35000320}}) {
    INFO(one.size_bytes);
    std::string rows;
    for (std::uint64_t i = 0; i < one.count; ++i)
      rows += "host_alloc," + std::to_string(i) + "," + std::to_string(one.size_bytes) + ",0\n";
    const PinnedUse use = replay_exact(program_of_rows(rows), PinKind::HostAlloc);
    CHECK((use.pinned_bytes_peak + one.count / 2) / one.count == one.taken_bytes);
    CHECK(use.pin_count == one.count);
  }
  // Steps of 512 bytes: a slab has 2048 blocks of 513 bytes.
  std::string rows;
  for (int i = 0; i < 4096; ++i) rows += "host_alloc," + std::to_string(i) + ",513,0\n";
  CHECK(replay_exact(program_of_rows(rows), PinKind::HostAlloc).pinned_bytes_peak == 4 * kMiB);
}

TEST_CASE("a slab's holes are joined, and it goes with its last block") {
  // Three blocks of 600 KiB fill a slab but for 248 KiB; the middle hole and the first make room
  // for one of 1200 KiB, and not for one of 1201.
  const std::string three =
      "host_alloc,1,614400,0\nhost_alloc,2,614400,0\nhost_alloc,3,614400,0\n"
      "host_free,1,0,0\nhost_free,2,0,0\n";
  const auto peak = [&](const std::string& rows) {
    return replay_exact(program_of_rows(three + rows), PinKind::HostAlloc).pinned_bytes_peak;
  };
  CHECK(peak("host_alloc,4,1228800,0\n") == 2 * kMiB);
  CHECK(peak("host_alloc,4,1229824,0\n") == 4 * kMiB);
  CHECK(peak("host_free,3,0,0\nhost_alloc,4,2097152,0\n") == 2 * kMiB);
}

TEST_CASE("CuPy's pool serves a size by blocks of that size alone, once their copies are done") {
  const auto pins = [](const std::string& rows) { return replay_cupy(program_of_rows(rows)); };
  // 3,000,001 bytes are 5,860 steps, as 3,000,320 are; 3,000,321 are one more.
  const std::string first = "host_alloc,1,3000001,0\nhost_free,1,0,0\n";
  CHECK(pins(first + "host_alloc,2,3000320,0\n").pin_count == 1);
  CHECK(pins(first + "host_alloc,2,3000321,0\n").pin_count == 2);
  CHECK(pins(first + "host_alloc,2,2999000,0\n").pin_count == 2);  // a smaller one has no use of it
  CHECK(pins(first).pinned_bytes_peak == 3002368);                 // whole pages of the driver's
  // A block of a copy that runs is not free; behind one that runs, none is.
  const std::string copied =
      "host_alloc,1,3000001,0\nkernel,0,1000000,1\nhost_record,1,0,1\nhost_free,1,0,0\n";
  CHECK(pins(copied + "host_alloc,2,3000001,0\n").pin_count == 2);
  CHECK(pins(copied + "sync,0,0,0\nhost_alloc,2,3000001,0\n").pin_count == 1);
  const std::string behind = "host_alloc,3,5000000,0\nkernel,0,900000000,2\nhost_record,3,0,2\n" +
                             copied + "host,0,800000000,0\nhost_alloc,2,3000001,0\n";
  CHECK(pins(behind).pin_count == 3);
}

TEST_CASE("a pool of the driver takes chunks of 32 MiB, and its threshold says what it keeps") {
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  const auto use = [](const std::string& rows, std::uint64_t threshold_bytes) {
    return replay_pool(program_of_rows(rows), threshold_bytes).value();
  };
  const std::string twice =
      "host_alloc,1,3145728,0\nhost_free,1,0,0\nsync,0,0,0\n"
      "host_alloc,2,3145728,0\nhost_free,2,0,0\n";
  CHECK(use(twice, 0) == PinnedUse{.pinned_bytes_peak = 32 * kMiB,
                                   .pin_count = 2,
                                   .unpin_count = 1,
                                   .pinning_ns = 2 * 3'367'000 + 1'057'000});
  CHECK(use(twice, kAll) == PinnedUse{.pinned_bytes_peak = 32 * kMiB,
                                      .pin_count = 1,
                                      .unpin_count = 0,
                                      .pinning_ns = 3'367'000});
  // Two chunks; while a copy still uses the block, the next one needs a third.
  const std::string copied =
      "host_alloc,1,41943040,0\nkernel,0,5000000,1\nhost_record,1,0,1\nhost_free,1,0,0\n";
  const std::string next = "host_alloc,2,41943040,0\n";
  CHECK(use(copied + next, kAll).pinned_bytes_peak == 96 * kMiB);
  CHECK(use(copied + "sync,0,0,0\n" + next, kAll).pinned_bytes_peak == 64 * kMiB);
  // A kernel that only a wait ends.
  CHECK(use("busy,0,0,1\n" + copied + "host,0,9000000,0\n" + next, kAll).pinned_bytes_peak ==
        96 * kMiB);
}

TEST_CASE("pools that are not PyTorch's have a row each, the driver's for each way to set it") {
  const PinnedProgram program = program_of("offload:kv_cache,buffers=5,buffer_bytes=1.20GiB");
  const std::vector<OtherRow> rows = other_rows(program);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].pool == "CuPy PinnedMemoryPool");
  CHECK(rows[1].conf == "release_threshold_mb:0");
  CHECK(rows[2].conf == "release_threshold_mb:max");
  for (const OtherRow& row : rows) {
    CHECK(row.use.pinned_bytes_peak >= program.asked_bytes_peak);
    CHECK(row.use.pinned_bytes_peak <= program.asked_bytes_peak + 32 * kMiB);
  }
  const host_caching::Buffers huge{.count = 32, .size_bytes = kGiB * 1024};
  CHECK(other_rows(pinned_program_of({&huge, 1})).size() == 1);
}

TEST_CASE("advice says which setting of a release pins least") {
  const PinnedProgram large = program_of("offload:kv_cache,buffers=5,buffer_bytes=1.20GiB");
  const auto best = [&](std::string_view release) {
    return advise_pinned(large, require_rules(release, "a test"));
  };
  CHECK(best("2.15").rows.front().use.pinned_bytes_peak < large.asked_bytes_peak + kMiB);
  CHECK(best("2.15").rows.front().dangers.empty());
  CHECK(best("2.15").rows.front().conf == "pinned_max_round_threshold_mb:1");
  // In 2.13 the one key alone overruns memory; with the other it is safe.
  CHECK(best("2.13").rows.front().dangers.empty());
  CHECK(best("2.13").rows.front().use.pinned_bytes_peak < large.asked_bytes_peak + kMiB);
  for (const PinnedRow& row : pinned_rows(large, {&require_rules("2.13", "a test")}, ""))
    CHECK(row.dangers.empty());
  CHECK(best("2.12").rows.front().conf.empty());
  CHECK(best("2.12").rows.front().use.pinned_bytes_peak == 10 * kGiB);
  const auto contains = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(contains(verdict_text(large, best("2.12")), "no setting of PyTorch 2.12 pins less"));
  CHECK(contains(verdict_text(large, best("2.15")), "6.00 GiB instead of 10.0 GiB"));
  const PinnedProgram fitting = program_of("offload:kv_cache,buffer_bytes=4GiB");
  CHECK(contains(verdict_text(fitting, advise_pinned(fitting, require_rules("2.15", "a test"))),
                 "wastes nothing"));
}

TEST_CASE("where sizes vary, unrounded blocks can cost more than rounded ones") {
  // Chunks of the prompts' rests: since 2.14 a kept block serves only what is not larger.
  const PinnedProgram program = program_of("offload:kv_cache,layout=chunks");
  const std::uint64_t unset = cached(program, "2.15").pinned_bytes_peak;
  const std::uint64_t unrounded =
      cached(program, "2.15", "pinned_max_round_threshold_mb:1").pinned_bytes_peak;
  CHECK(unrounded > unset);
  CHECK(advise_pinned(program, require_rules("2.15", "a test")).rows.front().conf ==
        "pinned_max_cached_size_mb:1");
}
