// Workloads made of workloads, and what the adversarial generators promise: exact levels, the sizes
// that they walk, and who holds what when.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/trace/source.h"
#include "workloads/trace/summary.h"
#include "workloads/trace/trace_hash.h"
#include "workloads/trace_tools.h"

using namespace allocmark;

namespace {

std::vector<Event> events_of(const std::string& workload, std::uint64_t seed = 1) {
  return read_all(*open_workload(workload, seed));
}

std::string error_of(const std::string& workload) {
  return usage_error_of([&] { static_cast<void>(open_workload(workload, 1)); });
}

}  // namespace

TEST_CASE("then runs the second program in what the first has left live") {
  const std::string litter = "litter:fill_bytes=8MiB,size_max=1MiB,keep_percent=50,rounds=1";
  const std::string comb = "comb:size_bytes=10,count=4,ask_bytes=20";
  const std::vector<Event> first = events_of(litter);
  const std::vector<Event> both = events_of(litter + " then " + comb);
  REQUIRE(both.size() == first.size() + events_of(comb).size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(both[i].kind == first[i].kind);
    CHECK(both[i].size_bytes == first[i].size_bytes);
  }
  const TraceSummary summary = summarize(*open_workload(litter + " then " + comb, 1));
  CHECK(summary.leftover_count == summarize(*open_workload(litter, 1)).leftover_count);
  CHECK(summary.leftover_count > 3);
  CHECK(both[first.size() + 1].size_bytes == 10);
}

TEST_CASE("beside keeps each process's order and gives its memory back at its end") {
  // The first two never free what they have.
  const std::string a = "litter:fill_bytes=4MiB,size_max=64KiB,keep_percent=90,rounds=1";
  const std::string b = "churn:live_bytes=1GiB,events=300";
  const std::string c = "producer:items=40,consumers=2";
  const std::unique_ptr<EventSource> source = open_workload(a + " beside " + b + " beside " + c, 7);
  CHECK(source->header().stream_count == 5);
  REQUIRE(source->header().jobs.size() == 3);
  CHECK(source->header().jobs[2].workload == c);
  CHECK(source->header().jobs[2].first_stream == 2);
  const std::vector<Event> all = read_all(*source);
  const TraceSummary summary = summarize(*source);
  CHECK(summary.leftover_count == 0);
  CHECK(std::ranges::count(all, EventKind::Trim, &Event::kind) == 3);
  const std::vector<std::string> texts = {a, b, c};
  for (std::uint64_t job = 0; job < 3; ++job) {
    std::vector<std::uint64_t> wanted;
    for (const Event& event : events_of(texts[job], 7 + job)) {
      if (event.kind == EventKind::Alloc) wanted.push_back(event.size_bytes);
    }
    std::vector<std::uint64_t> found;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].kind != EventKind::Alloc || all[i].id % 3 != job) continue;
      found.push_back(all[i].size_bytes);
      places.push_back(i);
    }
    CHECK(found == wanted);
    // They run at once: nobody is done before another begins.
    CHECK(places.front() < 200);
    CHECK(places.back() > 200);
  }
  // Another seed, another order of the same events.
  CHECK(trace_hash(*open_workload("comb: beside comb:", 1)) !=
        trace_hash(*open_workload("comb: beside comb:", 2)));
}

TEST_CASE("several processes survive a trace file") {
  const TemporaryFolder folder;
  const std::string path = folder.file("jobs.ops.csv.gz");
  std::FILE* sink = std::fopen("/dev/null", "w");
  REQUIRE(sink != nullptr);
  const std::string workload = "churn:events=500 beside producer:items=50 beside comb:count=6";
  CHECK(trace_convert(workload, path, 3, sink) == 0);
  CHECK(trace_validate(path, sink) == 0);
  std::fclose(sink);
  const std::unique_ptr<EventSource> copy = open_path_or_workload(path, 0);
  REQUIRE(copy->header().jobs.size() == 3);
  CHECK(copy->header().jobs[1].workload == "producer:items=50");
  CHECK(copy->header().jobs[2].first_stream == 4);
  CHECK(trace_hash(*copy) == trace_hash(*open_workload(workload, 3)));
  const std::string bad = folder.write("bad.csv", "# process: 3 comb\nop,id,size,stream\n");
  CHECK(mentions(usage_error_of([&] { static_cast<void>(open_path_or_workload(bad, 0)); }),
                 "bad first stream of a process"));
}

TEST_CASE("slips between workloads are named") {
  CHECK(mentions(error_of("comb: then "), "a workload is missing"));
  CHECK(mentions(error_of(" beside comb:"), "a workload is missing"));
  CHECK(mentions(error_of("comb: then cmb:"), "did you mean 'comb'"));
  CHECK(mentions(error_of("comb: beside comb:count=0"), "bad value of key 'count'"));
  CHECK(mentions(error_of("comb: beside producer:consumers=4095"), "at most 4096"));
  const TemporaryFolder folder;
  const std::string few =
      folder.write("few.csv", "# generator: mine\nop,id,size,stream\nalloc,1,8,3\n");
  CHECK(mentions(usage_error_of([&] {
                   static_cast<void>(
                       read_all(*open_workload("file:" + few + " beside file:" + few, 1)));
                 }),
                 "more streams than its head says"));
  const std::string large =
      folder.write("large.csv", "op,id,size,stream\nalloc,18446744073709551614,8,0\n");
  CHECK(mentions(usage_error_of([&] {
                   static_cast<void>(read_all(*open_workload("file:" + large + " then comb:", 1)));
                 }),
                 "too large to stand beside others"));
}

TEST_CASE("the levels that a generator names are reached to the byte") {
  const auto peak = [](const std::string& workload) {
    return summarize(*open_workload(workload, 3)).requested_bytes_peak;
  };
  CHECK(peak("sawtooth:peak_bytes=123456789") == 123456789);
  CHECK(peak("oom_edge:level_bytes=999999999,turns=5") == 999999999);
  CHECK(peak("oom_edge:level_bytes=999999999,turns=5,over_bytes=7") == 1000000006);
  CHECK(peak("litter:fill_bytes=77777777") == 77777777);
  CHECK(peak("growing:size_min=3,size_max=11,step_bytes=1,count=2") == 11 * 2 + 10);
}

TEST_CASE("boundaries walks both sides of every threshold") {
  std::set<std::uint64_t> sizes;
  for (const Event& event : events_of("boundaries:rounds=1,max_split_bytes=64MiB")) {
    if (event.kind == EventKind::Alloc) sizes.insert(event.size_bytes);
  }
  for (const std::uint64_t mib : {1, 2, 10, 20, 64}) {
    for (const int offset : {-512, -1, 0, 1, 512}) {
      INFO(mib << " MiB " << offset);
      CHECK(sizes.contains((mib << 20) + static_cast<std::uint64_t>(offset)));
    }
  }
  CHECK(sizes.contains((std::uint64_t{84} << 20) - 1));
  CHECK(sizes.contains((std::uint64_t{84} << 20) + 1));
}

TEST_CASE("robson frees every other block before it doubles the size") {
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> freed;
  for (const Event& event : events_of("robson:live_bytes=80,size_min=10,size_max=20")) {
    if (event.kind == EventKind::Alloc) sizes.push_back(event.size_bytes);
    if (event.kind == EventKind::Free && freed.size() < 7) freed.push_back(event.id);
  }
  CHECK(sizes == std::vector<std::uint64_t>{10, 10, 10, 10, 10, 10, 10, 10, 20, 20});
  CHECK(freed == std::vector<std::uint64_t>{1, 3, 5, 7, 2, 6, 9});
}
