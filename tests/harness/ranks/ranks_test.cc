// Goal: ranks meet as their traces say, in the same order every time; one that fails or is late is
// named with its numbers, and so are those that wait for it. Method: traces of a few rows, whose
// waits can be added up by hand, and small generated jobs, on four simulated devices in this
// process.
#include <unistd.h>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/link_time.h"
#include "harness/tools/ranks/ranks.h"
#include "tests/catch.h"
#include "tests/support/text_checks.h"

namespace allocmark {
namespace {

// Read by the first call to CUDA, which comes later.
const bool four_devices = setenv("SIMCUDA_DEVICES", "4", 1) == 0;

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Trace files in a folder of their own.
class Traces {
 public:
  Traces()
      : folder_(std::filesystem::temp_directory_path() /
                ("allocmark_ranks_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Traces() { std::filesystem::remove_all(folder_); }
  Traces(const Traces&) = delete;

  RankSpec rank(const std::string& rows) {
    const auto number = static_cast<std::uint32_t>(count_++);
    const std::filesystem::path path = folder_ / (std::to_string(number) + ".csv");
    std::ofstream(path) << "op,id,size,stream\n" << rows;
    return {.number = number, .workload = "file:" + path.string()};
  }

 private:
  std::filesystem::path folder_;
  int count_ = 0;
};

RanksSpec spec_of(std::vector<RankSpec> ranks) {
  RanksSpec spec;
  spec.ranks = std::move(ranks);
  spec.allocator = "caching";
  return spec;
}

RanksSpec job_of(const std::string& workload) {
  return spec_of(ranks_of({.workloads = {workload}}));
}

// "failed 2", "late 1": kinds and ranks, in order.
std::vector<std::string> kinds_of(const std::vector<RankRow>& rows) {
  std::vector<std::string> kinds;
  for (const RankFinding& finding : findings_of(rows)) {
    kinds.push_back(finding_name(finding.kind) + (" " + std::to_string(finding.rank)));
  }
  return kinds;
}

}  // namespace

TEST_CASE("the others wait until the last one comes, and all go on together") {
  Traces traces;
  const std::string meet = "mark,collective:all,4096,0\n";
  const std::vector<RankRow> rows = run_ranks(
      spec_of({traces.rank(meet + "sync,0,0,0\n"), traces.rank("kernel,0,5000000,0\n" + meet),
               traces.rank("kernel,0,2000000,0\n" + meet)}));
  REQUIRE(rows.size() == 3);
  // Rank 1 is the last, after its kernel; a launch costs the host some microseconds.
  CHECK(rows[0].wait_ns.value() > 5 * kMillisecond - kMillisecond / 10);
  CHECK(rows[0].wait_ns.value() < 5 * kMillisecond + kMillisecond / 10);
  CHECK(rows[1].wait_ns == 0);
  CHECK(rows[2].wait_ns.value() > 3 * kMillisecond - kMillisecond / 10);
  CHECK(rows[2].wait_ns.value() < 3 * kMillisecond + kMillisecond / 10);
  // Rank 2 was there 3 ms before it; what rank 0 waited longer was for both.
  CHECK(rows[1].delay_ns == rows[2].wait_ns);
  CHECK(rows[0].delay_ns == 0);
  CHECK(rows[2].delay_ns == 0);
  for (const RankRow& row : rows) {
    CHECK(row.meeting_count == 1);
    CHECK(row.end_ns.value() >= 5 * kMillisecond + link_ns(4096));
    CHECK(row.end_ns.value() < 5 * kMillisecond + link_ns(4096) + kMillisecond / 10);
  }
  CHECK(kinds_of(rows) == std::vector<std::string>{"late 1"});
}

TEST_CASE("work after a meeting comes after it on every stream") {
  Traces traces;
  const std::vector<RankRow> rows = run_ranks(
      spec_of({traces.rank("mark,collective:all,0,1\nkernel,0,2000000,0\nkernel,0,1000000,2\n"),
               traces.rank("kernel,0,5000000,0\nmark,collective:all,0,1\n")}));
  CHECK(rows[0].end_ns.value() >= 7 * kMillisecond + link_ns(0));
  CHECK(rows[0].end_ns.value() < 7 * kMillisecond + kMillisecond / 10);
  CHECK(rows[1].end_ns.value() < 6 * kMillisecond);
}

TEST_CASE("a send waits for nobody, and its receiver waits for the bytes") {
  Traces traces;
  const std::vector<RankRow> rows =
      run_ranks(spec_of({traces.rank("mark,receive:x,400000000,0\n"),
                         traces.rank("kernel,0,3000000,0\nmark,send:x,400000000,0\n")}));
  // 3 ms of work, then 400 MB at 400 GB/s.
  const std::uint64_t end_ns = 3 * kMillisecond + link_ns(400'000'000);
  CHECK(rows[0].wait_ns.value() > end_ns - kMillisecond / 10);
  CHECK(rows[0].wait_ns.value() < end_ns + kMillisecond / 10);
  CHECK(rows[0].end_ns.value() >= end_ns);
  CHECK(rows[1].wait_ns == 0);
  CHECK(rows[1].delay_ns == rows[0].wait_ns);
}

TEST_CASE("a rank that runs out of memory is named, and who waits for it") {
  Traces traces;
  // A second of work, beside which nobody is late.
  const std::string begin =
      "kernel,0,1000000000,0\nmark,step0,0,0\nalloc,1,33554432,0\nmark,collective:all,0,0\n"
      "mark,step1,0,0\n";
  const std::string even = begin + "mark,collective:all,0,0\n";
  const std::string greedy = begin + "alloc,2,67108864,0\nmark,collective:all,0,0\n";
  RanksSpec spec = spec_of({traces.rank(even), traces.rank(even), traces.rank(greedy)});
  for (RankSpec& rank : spec.ranks) rank.capacity = "64MiB";
  const std::vector<RankRow> rows = run_ranks(spec);
  REQUIRE(rows[2].failure);
  const RankFailure& failure = *rows[2].failure;
  CHECK(failure.event_index == 5);
  CHECK(failure.asked_bytes == 64 * kMiB);
  CHECK(failure.free_bytes == 32 * kMiB + 3'276'800);  // the driver keeps some back
  CHECK(failure.live_bytes == 32 * kMiB);
  CHECK(failure.reserved_bytes == 32 * kMiB);
  CHECK(failure.step == "step1");
  CHECK(rows[2].device_bytes_peak == 32 * kMiB);
  for (const std::size_t i : {0u, 1u}) {
    REQUIRE(rows[i].stall);
    CHECK(rows[i].stall->meeting == "collective:all");
    CHECK(rows[i].stall->number == 2);
    CHECK(rows[i].stall->step == "step1");
    CHECK(rows[i].stall->missing == std::vector<std::uint32_t>{2});
    CHECK(rows[i].oom_count == 0);
  }
  CHECK(kinds_of(rows) == std::vector<std::string>{"failed 2", "waits 0"});
  // It goes on without the block where it is told to, and nobody waits in vain.
  spec.on_oom = "skip";
  const std::vector<RankRow> skipped = run_ranks(spec);
  CHECK(kinds_of(skipped) == std::vector<std::string>{"failed 2"});
  CHECK(skipped[0].meeting_count == 2);
}

TEST_CASE("traces that do not fit together are refused with the meeting") {
  Traces traces;
  const std::string once = "mark,collective:all,64,0\n";
  const RankSpec one = traces.rank(once);
  CHECK(contains(error_of([&] {
                   (void)run_ranks(spec_of({one, traces.rank(once + once)}));
                 }),
                 "meeting 2 of 'collective:all'"));
  CHECK(contains(error_of([&] {
                   (void)run_ranks(spec_of({one, traces.rank("mark,collective:all,65,0\n")}));
                 }),
                 "ranks bring different sizes to one meeting"));
  CHECK(contains(error_of([&] {
                   (void)run_ranks(spec_of({traces.rank("mark,receive:x,1,0\n"), traces.rank("")}));
                 }),
                 "nobody sends"));
  // Each waits for the other.
  const std::string ab = "mark,collective:a,0,0\nmark,collective:b,0,0\n";
  const std::string ba = "mark,collective:b,0,0\nmark,collective:a,0,0\n";
  CHECK(contains(error_of([&] {
                   (void)run_ranks(spec_of({traces.rank(ab), traces.rank(ba)}));
                 }),
                 "the traces of the ranks do not fit together"));
  CHECK(contains(error_of([&] {
                   (void)run_ranks(spec_of({one, one, one, one, one}));
                 }),
                 "too few GPUs"));
}

TEST_CASE("ranks come from a job's text, and one of them may differ") {
  const std::vector<RankSpec> ranks =
      ranks_of({.workloads = {"train:gpt2-124m,layers=2,batch=1,dp=2,tp=2+kernels:off"},
                .chosen = {1, 3},
                .capacity = "1.1x",
                .rank_capacities = {"3=6GiB"},
                .rank_workloads = {"1=churn:events=10"}});
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].number == 1);
  CHECK(ranks[0].workload == "churn:events=10");
  CHECK(ranks[0].capacity == "1.1x");
  CHECK(contains(ranks[1].workload, ",rank=3,collectives=1,kernels=1+kernels:off"));
  CHECK(ranks[1].capacity == "6GiB");
  const auto refused = [](const JobWords& words) {
    return error_of([&] { (void)ranks_of(words); });
  };
  CHECK(contains(refused({.workloads = {"train:gpt2-124m"}}), "one rank"));
  CHECK(contains(refused({.workloads = {"train:gpt2-124m,dp=2,rank=1"}}), "rank=1"));
  CHECK(contains(refused({.workloads = {"churn:events=9"}}), "another workload"));
  CHECK(contains(refused({.workloads = {"trian:gpt2-124m,dp=2"}}), "did you mean 'train'"));
  CHECK(contains(refused({.workloads = {"train:gpt2-124m,dp=2"}, .chosen = {0, 2}}), "0 to 1"));
  CHECK(
      contains(refused({.workloads = {"train:gpt2-124m,dp=4"}, .chosen = {0, 0}}), "named twice"));
  CHECK(contains(refused({.workloads = {"train:gpt2-124m,dp=32"}}), "2 to 16 ranks"));
  CHECK(contains(refused({.workloads = {"train:gpt2-124m,dp=2"}, .rank_capacities = {"2=1GiB"}}),
                 "R of 0, 1"));
}

TEST_CASE("all ranks of generated jobs come to the same meetings") {
  for (const char* const job :
       {"train:gpt2-124m,layers=2,batch=1,seq=128,steps=2,dp=4",
        "train:gpt2-124m,layers=2,batch=1,seq=128,steps=2,dp=4,precision=bf16,zero=2",
        "train:gpt2-124m,layers=2,batch=1,seq=128,steps=2,dp=4,fsdp=1",
        "train:gpt2-124m,layers=2,batch=1,seq=128,steps=2,dp=2,tp=2,fsdp=2",
        "train:gpt2-124m,layers=4,batch=1,seq=128,steps=2,pp=4,micro_batches=8",
        "train:gpt2-124m,layers=8,batch=1,seq=128,steps=2,pp=2,tp=2,virtual=2,micro_batches=4,"
        "implementation=megatron",
        "train:llama-3-8b,layers=2,batch=1,seq=128,steps=2,tp=4,sp=1,kernels=1",
        "train:llama-3-8b,layers=2,batch=1,seq=128,steps=2,cp=4",
        "train:llama-3-8b,layers=2,batch=1,seq=128,steps=2,cp=2,tp=2,rotate=alltoall"}) {
    INFO(job);
    const std::vector<RankRow> rows = run_ranks(job_of(job));
    REQUIRE(rows.size() == 4);
    for (const RankRow& row : rows) {
      CHECK(row.meeting_count > 0);
      CHECK_FALSE(row.stall);
      CHECK_FALSE(row.failure);
    }
    // The driver's times are drawn anew for every thread of a process, and reuse between streams
    // depends on them. cli_test.sh compares two processes in full.
    const std::vector<RankRow> again = run_ranks(job_of(job));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CHECK(again[i].requested_bytes_peak == rows[i].requested_bytes_peak);
      CHECK(again[i].meeting_count == rows[i].meeting_count);
      CHECK(again[i].step_live_bytes == rows[i].step_live_bytes);
    }
  }
}

TEST_CASE("the JSON of ranks names who is missing where") {
  Traces traces;
  RanksSpec spec =
      spec_of({traces.rank("mark,step0,0,0\nalloc,1,33554432,0\nmark,collective:all,0,0\n"),
               traces.rank("mark,collective:all,0,0\n")});
  spec.ranks[0].capacity = "16MiB";
  CHECK(contains(to_json(run_ranks(spec)), "\"missing_ranks\":[0]"));
}

}  // namespace allocmark
