// The self-check of snapshots. Goal: a snapshot of an allocator that decides as PyTorch's does is
// reproduced placement by placement, wherever its history begins, and one that was tampered with is
// not. Method: `caching` itself records snapshots of workloads, which go through a file.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "allocators/caching/config.h"
#include "base/bytes.h"
#include "harness/core/recorded/recorded_settings.h"
#include "harness/core/recorded/self_check.h"
#include "harness/tools/export/caching_recorder.h"
#include "harness/tools/why/why.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "workloads/import/snapshot_history.h"
#include "workloads/import/snapshot_pools.h"
#include "workloads/import/snapshot_writer.h"
#include "workloads/open_workload.h"

namespace allocmark {
namespace {

struct Case {
  std::string workload;
  std::string conf;
  std::uint64_t capacity_bytes = std::uint64_t{1} << 40;
  std::uint64_t first_entry = 0;
};

MemorySnapshot record(const Case& one, const std::string& path) {
  const std::unique_ptr<EventSource> source = open_workload(one.workload, 1);
  const RecordRequest request{
      .settings = caching::parse_strict(one.conf, caching::recorded_rules()).settings,
      .conf = one.conf,
      .capacity_bytes = one.capacity_bytes,
      .first_entry = one.first_entry};
  write_memory_snapshot(record_on_caching(*source, request), path);
  return read_memory_snapshot(path);
}

SelfCheck check(const MemorySnapshot& snapshot) {
  const DeviceHistory history(snapshot, 0);
  return recognise(history, snapshot.settings).check;
}

}  // namespace

TEST_CASE("a snapshot is reproduced placement by placement") {
  constexpr std::uint64_t kGiBytes = std::uint64_t{1} << 30;
  const Case cases[] = {
      {"gpt2_train_amp", ""},
      {"gpt2_train_amp", "expandable_segments:True"},
      {"gpt2_train_amp", "", std::uint64_t{20800} << 20},
      {"gpt2_train_amp", "max_split_size_mb:128", std::uint64_t{20800} << 20},
      {"llama_lora_varlen_accum", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"},
      {"llama_lora_varlen_accum", "large_segment_size_mb:64"},
      {"bert_varlen_infer", "expandable_segments:True", 2 * kGiBytes},
      {"fuzz_1", ""},
      {"fuzz_s1", "max_split_size_mb:32"},
      {"fuzz_r1", ""},
      {"fuzz_r1", "expandable_segments:True"},
  };
  const TemporaryFolder folder;
  for (const Case& each : cases) {
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{7001}}) {
      Case one = each;
      one.first_entry = first;
      INFO(one.workload << " " << one.conf << " from entry " << first);
      const MemorySnapshot snapshot = record(one, folder.path("s.pickle.gz"));
      const SelfCheck result = check(snapshot);
      INFO(to_text(result));
      CHECK(result.placement_count > 100);
      CHECK(result.complete());
    }
  }
}

// Recorded by PyTorch 2.11 on an H200; facts.tsv says what PyTorch counted.
TEST_CASE("every recorded placement of PyTorch's snapshots is reproduced") {
  std::ifstream facts("tests/golden/snapshots/facts.tsv");
  std::string line;
  std::size_t complete_count = 0;
  while (std::getline(facts, line)) {
    if (line.starts_with('#') || line.starts_with("name")) continue;
    std::istringstream columns(line);
    std::string name, conf;
    std::uint64_t entry_count = 0, alloc_count = 0, oom_count = 0;
    columns >> name >> conf >> entry_count >> alloc_count >> oom_count;
    INFO(name);
    const MemorySnapshot snapshot =
        read_memory_snapshot("tests/golden/snapshots/" + name + ".pickle.gz");
    REQUIRE(snapshot.entry_count(0) == entry_count);
    if (entry_count == 0) continue;
    CHECK(recorded_settings(snapshot.settings, caching::recorded_rules()).conf ==
          (conf == "unset" ? "" : conf));
    const SelfCheck result = check(snapshot);
    INFO(to_text(result));
    CHECK(result.placement_count == alloc_count);
    CHECK(result.oom_count == oom_count);
    CHECK(result.complete());
    // PyTorch 2.11 does not name the pool of a request, and these pools are gone at the end.
    if (name == "memory_pools") CHECK(result.guessed_pool_count > 0);
    if (name == "graph_trees") CHECK(result.restored_count == 125);
    complete_count += result.complete() ? 1 : 0;
  }
  CHECK(complete_count == 26);
}

// Graphs that share a pool, one with a pool of its own, and a MemPool that sleeps and wakes.
std::string program_with_pools() {
  std::string text = "op,id,size,stream\n";
  std::uint64_t id = 0;
  const auto add = [&](const std::string& row) { text += row + "\n"; };
  const auto take = [&](std::uint64_t size_bytes, std::uint64_t stream) {
    add(fmt::format("alloc,{},{},{}", ++id, size_bytes, stream));
    return id;
  };
  const auto give = [&](std::uint64_t block) { add(fmt::format("free,{},0,0", block)); };
  const auto work = [&](std::uint64_t scale, std::uint64_t stream) {
    std::vector<std::uint64_t> blocks;
    for (std::uint64_t i = 1; i <= 12; ++i)
      blocks.push_back(take((i * 7919 % 13 + 1) * 200'000 * scale, stream));
    for (const std::uint64_t block : blocks) give(block);
  };
  take(30'000'000, 0);
  work(3, 0);
  for (std::uint64_t graph = 0; graph < 4; ++graph) {
    const std::uint64_t pool = graph < 3 ? 1 : 2;
    work(2, 0);
    add("empty_cache,0,0,0");
    add(fmt::format("pool_begin,{},0,1\ncapture_begin,{},0,1", pool, pool));
    work(graph + 1, 1);
    take(700'000, 1);
    add(fmt::format("capture_end,{},0,1\npool_end,{},0,0", pool, pool));
  }
  work(4, 0);
  for (std::uint64_t pool = 3; pool < 6; ++pool) {
    add(fmt::format("pool_create,{},0,0\npool_begin,{},1,0", pool, pool));
    const std::uint64_t weights = take(50'000'000, 0);
    const std::uint64_t cache = take(90'000'000, 0);
    add(fmt::format("pool_end,{},0,0\npool_release,{},0,0", pool, pool));
    work(3, 0);
    give(weights);
    give(cache);
    add(fmt::format("pool_release,{},0,0\nempty_cache,{},0,0", pool, pool));
    work(2, 0);
  }
  add("pool_release,2,0,0\nempty_cache,0,0,0");
  work(3, 0);
  return text;
}

TEST_CASE("private pools are reproduced, whether entries name them or not") {
  const TemporaryFolder folder;
  const std::string workload = "file:" + folder.write("pools.csv", program_with_pools());
  for (const char* const conf : {"", "expandable_segments:True"}) {
    for (const bool names_pools : {true, false}) {
      INFO(conf << (names_pools ? " named" : ""));
      MemorySnapshot snapshot = record({workload, conf}, folder.path("s.pickle.gz"));
      std::uint64_t reserved_bytes = 0, peak_bytes = 0;
      for (SnapshotEntry& entry : snapshot.entries) {
        entry.has_pool = names_pools ? 1 : 0;
        if (!names_pools) entry.pool = 0;
        reserved_bytes += is_growth(entry.action) ? entry.size_bytes : 0;
        reserved_bytes -= is_release(entry.action) ? entry.size_bytes : 0;
        peak_bytes = std::max(peak_bytes, reserved_bytes);
      }
      const SelfCheck result = check(snapshot);
      INFO(to_text(result));
      CHECK(result.placement_count == 215);
      CHECK(result.complete());
      CHECK(result.reserved_bytes_peak == peak_bytes);
      CHECK((result.guessed_pool_count > 0) == (!names_pools));
    }
  }
}

TEST_CASE("a replay that gives back what PyTorch kept does not pass the self-check") {
  const TemporaryFolder folder;
  const std::string workload = "file:" + folder.write("pools.csv", program_with_pools());
  MemorySnapshot snapshot = record({workload, ""}, folder.path("s.pickle.gz"));
  // As if PyTorch had kept one segment of the common pool that empty_cache gives back.
  const auto found = std::ranges::find_if(snapshot.entries, [](const SnapshotEntry& entry) {
    return entry.action == SnapshotAction::SegmentFree && entry.pool == 0;
  });
  REQUIRE(found != snapshot.entries.end());
  found->action = SnapshotAction::Snapshot;
  const SelfCheck result = check(snapshot);
  CHECK_FALSE(result.complete());
  CHECK(result.first_difference.find("bytes of the device") != std::string::npos);
}

TEST_CASE("a self-check that fails says where") {
  const TemporaryFolder folder;
  MemorySnapshot snapshot = record({"gpt2_train_amp", ""}, folder.path("s.pickle"));
  // As if PyTorch had put one block elsewhere.
  std::uint64_t index = 10000;
  while (snapshot.entries[index].action != SnapshotAction::Alloc) ++index;
  const std::uint64_t address = snapshot.entries[index].address;
  for (std::uint64_t i = index; i < snapshot.entries.size(); ++i) {
    if (snapshot.entries[i].address == address) snapshot.entries[i].address += 512;
  }
  const SelfCheck result = check(snapshot);
  CHECK_FALSE(result.complete());
  CHECK(result.equal_count < result.placement_count);
  CHECK(result.equal_count + 50 > result.placement_count);
  CHECK(result.first_difference.starts_with(fmt::format("entry {}:", index)));
  CHECK(to_text(result).find("an estimate") != std::string::npos);
}

TEST_CASE("settings other than the recorded ones do not pass the self-check") {
  const TemporaryFolder folder;
  MemorySnapshot snapshot =
      record({"gpt2_train_amp", "expandable_segments:True"}, folder.path("s.pickle"));
  snapshot.settings.expandable_segments = false;
  snapshot.settings.conf.clear();
  CHECK_FALSE(check(snapshot).complete());
}

TEST_CASE("why names the failed request, what held the memory, and a setting that serves") {
  const Why why = explain_snapshot("tests/golden/snapshots/train_oom.pickle.gz", {});
  REQUIRE(why.shares.has_value());
  CHECK(why.check.last_oom->size_bytes == 138412032);
  CHECK(why.shares->usable_bytes > why.check.last_oom->size_bytes);
  CHECK(why.shares->usable_largest_bytes < why.check.last_oom->size_bytes);
  REQUIRE_FALSE(why.held.empty());
  CHECK(why.held.front().holder.find("train_oom") != std::string::npos);
  CHECK(why.settings.front().conf == "expandable_segments:True");
  CHECK(why.settings.front().failed_count == 0);
  const std::string text = to_text(why);
  CHECK(text.substr(0, text.find('\n')).find("a request of 132 MiB failed") != std::string::npos);
  CHECK(text.ends_with("\nTo set it: export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"));
}

TEST_CASE("why says that no setting can help where the job needs more than the card has") {
  const Why why = explain_snapshot("tests/golden/snapshots/device_oom.pickle.gz", {});
  CHECK(why.live_bytes_peak > why.capacity_bytes_max);
  const std::string text = to_text(why);
  CHECK(text.find("no setting can help") != std::string::npos);
  CHECK(text.ends_with("\nTo set: nothing; no setting serves every request.\n"));
}

TEST_CASE("why answers for another memory where nothing failed in the recording") {
  const auto answer = [](std::uint64_t memory_mib) {
    return to_text(explain_snapshot("tests/golden/snapshots/annotated.pickle.gz",
                                    {.memory_bytes = memory_mib * kMiB}));
  };
  const std::string ample = answer(1024);
  CHECK(ample.find("no request failed in this history") != std::string::npos);
  CHECK(ample.ends_with("\nTo set: nothing; the recorded settings serve every request.\n"));
  const std::string small = answer(300);
  CHECK(small.find("with 300 MiB the recorded settings fail 59 requests; max_split_size_mb:64 "
                   "serves every request") != std::string::npos);
  CHECK(small.ends_with("\nTo set it: export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64\n"));
  const std::string tiny = answer(100);
  CHECK(tiny.find("would have 100 MiB: no setting can help") != std::string::npos);
}

TEST_CASE("why advises the driver's pools where no setting of PyTorch's own allocator serves") {
  Why why = explain_snapshot("tests/golden/snapshots/train_oom.pickle.gz", {.confs = {""}});
  const auto says = [&](const std::string& part) {
    INFO(to_text(why));
    CHECK(to_text(why).find(part) != std::string::npos);
  };
  says("none of 1 settings serves every request.");
  says("To set: nothing of the allocator's; the limit must rise.");
  why.others = {{.name = "native", .simulated = {}}};
  says("and allocators that PyTorch does not have do.");
  says("To set: nothing of the allocator's; the limit must rise.");
  why.others = {{.name = kDriverPoolConf, .simulated = {.failed_count = 1}}};
  says("To set: nothing of the allocator's; the limit must rise.");
  why.others = {{.name = kDriverPoolConf, .simulated = {}}};
  says("backend:cudaMallocAsync serves every request.");
  says("To set it: export PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync\n");
}

TEST_CASE("why uses the memory that is given") {
  const WhyOptions options{.memory_bytes = std::uint64_t{8} << 30,
                           .confs = {"", "max_split_size_mb:64"}};
  const Why why = explain_snapshot("tests/golden/snapshots/train_oom.pickle.gz", options);
  CHECK(why.settings.size() == 2);
  for (const WhatIf& entry : why.settings) CHECK(entry.failed_count == 0);
  CHECK(why.capacity_source == "as given");
}

// PyTorch's issue 189504: a block that fits waits for a stream, becomes free while the request
// fails, and is not looked at again.
TEST_CASE("why tells a block that waits for a stream from fragmentation") {
  const TemporaryFolder folder;
  const std::string trace = folder.path("pending.csv");
  std::ofstream(trace) << "op,id,size,stream\n"
                          "alloc,1,314572800,0\nfree,1,0,0\nalloc,2,209715200,0\n"
                          "alloc,3,52428800,0\nrecord,2,0,1\nbusy,0,0,1\nfree,2,0,0\n"
                          "alloc,4,157286400,0\nalloc,5,157286400,0\n";
  const std::unique_ptr<EventSource> source = open_workload("file:" + trace, 1);
  const std::string path = folder.path("pending.pickle");
  RecordRequest request;
  request.capacity_bytes = std::uint64_t{400} << 20;
  write_memory_snapshot(record_on_caching(*source, request), path);
  const Why why = explain_snapshot(path, {});
  const std::string text = to_text(why);
  INFO(text);
  CHECK(why.check.complete());
  CHECK(why.check.oom_count == 1);
  REQUIRE(why.check.last_oom.has_value());
  CHECK(why.check.last_oom->retry_serves);
  CHECK(text.find("the same request right after it is served") != std::string::npos);
  CHECK(why.shares->live_bytes == 52428800);
  // Settings that place the blocks alike fail alike.
  for (const WhatIf& entry : why.settings) {
    if (entry.conf.empty() || entry.conf == "max_split_size_mb:512") CHECK(entry.failed_count == 1);
  }
}

}  // namespace allocmark
