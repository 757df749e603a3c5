// A pass whose device calls are made again without its allocator, against the allocator itself.
#include "harness/core/search/driver_tape.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "allocators/caching/allocator.h"
#include "allocators/caching/config.h"
#include "allocators/registry.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/capacity.h"
#include "harness/core/replay/device_work.h"
#include "harness/core/replay/open_job.h"
#include "harness/core/replay/prepared_trace.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/core/search/driver_time.h"
#include "harness/core/search/search.h"
#include "tests/allocators/caching/fake_device.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

using caching::FakeDevice;

constexpr std::uint64_t kTotalBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kFewBytes = std::uint64_t{200} << 20;

const SimcuThreadClock kStoppedClock{};

// The same requests for every device: 3000 of them on two streams, some blocks used on a third.
// Returns where the blocks lie, 0 for each that was refused.
std::vector<std::uint64_t> run_program(caching::Driver& device, const std::string& conf) {
  caching::CachingAllocator allocator(
      device, caching::parse_strict(conf, caching::newest_rules()).settings);
  std::mt19937_64 random(7);
  std::vector<std::uint64_t> places, live;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t size_bytes = std::uint64_t{1} << (10 + random() % 15);
    const caching::Stream stream = random() % 2;
    places.push_back(allocator.allocate(size_bytes, stream).value_or(0));
    if (places.back() != 0) live.push_back(places.back());
    if (live.size() < 30) continue;
    const std::size_t at = random() % live.size();
    if (random() % 4 == 0) CHECK(allocator.record_stream(live[at], 5));
    CHECK(allocator.deallocate(live[at]));
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return places;
}

const std::vector<std::string> kConfs = {"", "expandable_segments:True", "max_split_size_mb:32"};

TEST_CASE("calls on a tape do to another device what the allocator would do") {
  for (const std::string& conf : kConfs) {
    INFO(conf);
    FakeDevice first(kTotalBytes, kFewBytes), second(kTotalBytes, kFewBytes);
    DriverTape tape(first, kStoppedClock);
    (void)run_program(tape, conf);
    REQUIRE(tape.is_whole());
    // Its pages and events are other ones.
    second.release_page(*second.create_page(kTotalBytes / 1024));
    second.destroy_event(second.create_event());
    const std::uint64_t call_count = second.call_count();
    CHECK(tape.make_again(second, tape.call_count() / 2));
    CHECK(second.used_bytes() > 0);
    CHECK(tape.make_again(second, tape.call_count()));
    CHECK(second.call_count() - call_count == first.call_count());
    CHECK(second.is_clean());
  }
}

TEST_CASE("where a device answers otherwise, the allocator goes on from there") {
  for (const std::string& conf : kConfs) {
    INFO(conf);
    for (const std::uint64_t capacity_bytes : {kFewBytes / 2, kFewBytes * 3 / 4, 2 * kFewBytes}) {
      FakeDevice first(kTotalBytes, kFewBytes), second(kTotalBytes, capacity_bytes),
          alone(kTotalBytes, capacity_bytes);
      DriverTape tape(first, kStoppedClock);
      const std::vector<std::uint64_t> before = run_program(tape, conf);
      const std::vector<std::uint64_t> wanted = run_program(alone, conf);
      REQUIRE(before != wanted);
      REQUIRE(!tape.make_again(second, tape.call_count()));
      CHECK(tape.made_count() > 0);
      tape.answer_from_tape(second);
      CHECK(run_program(tape, conf) == wanted);
      CHECK(second.call_count() == alone.call_count());
      CHECK(second.is_clean());
    }
  }
}

TEST_CASE("a tape is not whole with calls of a pool, with too many and without any") {
  FakeDevice device(kTotalBytes, kFewBytes);
  DriverTape pooled(device, kStoppedClock);
  pooled.check_pending_error();
  CHECK(pooled.is_whole());
  pooled.prepare_pool();
  CHECK(!pooled.is_whole());
  DriverTape full(device, kStoppedClock, 1);
  CHECK(!full.is_whole());
  full.check_pending_error();
  CHECK(full.is_whole());
  full.check_pending_error();
  CHECK(!full.is_whole());
}

// Steps of a program, as a file: most of what it asks for is given back in the step after.
std::string steps_file() {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("allocmark_steps_" + std::to_string(getpid()) + ".csv"))
                               .string();
  std::ofstream file(path);
  file << "op,id,size,stream\n";
  std::mt19937_64 random(11);
  std::vector<std::uint64_t> sizes;
  std::size_t freed = 0;
  for (std::uint64_t step = 0; step < 12; ++step) {
    const std::size_t begin = sizes.size();
    for (int i = 0; i < 60; ++i) {
      sizes.push_back((std::uint64_t{1} << (12 + random() % 14)) + 4096 * step);
      file << "alloc," << sizes.size() << "," << sizes.back() << ",0\n";
    }
    for (; freed < begin; ++freed) file << "free," << freed + 1 << ",0,0\n";
  }
  return path;
}

// Two passes with the allocator, of which the second counts.
SettingFacts facts_of_two_passes(const SearchSpec& spec) {
  const SimcuApi simcu = SimcuApi::find();
  PreparedTrace trace(open_job(spec.workload, spec.seed).events);
  const StreamSet streams(trace.facts().stream_count, true);
  const std::unique_ptr<DeviceWork> work = make_device_work(simcu);
  const Ballast ballast(parse_capacity(spec.capacity).resolve_bytes(0));
  SettingFacts facts{.conf = spec.confs.front()};
  for (int pass = 0; pass < 2; ++pass) {
    std::uint64_t used_bytes_max = 0, refused_bytes_min = 0;
    simcu.take_memory_extremes(&used_bytes_max, &refused_bytes_min);
    const std::uint64_t before_bytes = simcu.used_bytes();
    std::unique_ptr<Backend> inner = find_backend(spec.allocator).make({.conf = facts.conf});
    DriverTimeBackend backend(*inner, *simcu.thread_clock());
    Replayer replayer({.backend = &backend, .work = work.get(), .streams = streams.all()});
    trace.for_each_step_batch([&](const TraceBatch& batch) {
      replayer.reserve_slots(batch.slot_count);
      run_by_steps(batch.steps, &replayer, &backend);
      return true;
    });
    work->synchronize();
    backend.end_pass();
    replayer.release_live();
    inner.reset();
    simcu.take_memory_extremes(&used_bytes_max, &refused_bytes_min);
    facts.oom_count = replayer.counts().oom_count;
    facts.peak_bytes = used_bytes_max - before_bytes;
    facts.driver_ns_per_step = backend.sums().step_ns_median();
    facts.calls_per_step = backend.sums().step_calls_median();
    facts.driver_ns = backend.sums().total_ns();
  }
  facts.pass_count = 2;
  return facts;
}

TEST_CASE("a search says of a setting what two passes with its allocator say") {
  const std::string path = steps_file();
  const SimcuApi simcu = SimcuApi::find();
  struct Row {
    const char* allocator;
    const char* conf;
  };
  for (const Row& row :
       {Row{"caching", ""}, Row{"caching", "expandable_segments:True"},
        Row{"caching", "max_split_size_mb:20"}, Row{"caching", "backend:cudaMallocAsync"},
        Row{"vmm_stitch", ""}, Row{"native", ""}, Row{"cub", ""}}) {
    for (const char* const capacity : {"400MiB", "8GiB"}) {
      INFO(row.allocator << " " << row.conf << " " << capacity);
      const SearchSpec spec{.workload = "file:" + path,
                            .capacity = capacity,
                            .allocator = row.allocator,
                            .confs = {row.conf},
                            .finds_least = false};
      // What is freed is clean again before either begins.
      constexpr std::uint64_t kLongNs = 10'000'000'000;
      simcu.pass_time(kLongNs);
      const SettingFacts wanted = facts_of_two_passes(spec);
      simcu.pass_time(kLongNs);
      const SettingFacts facts = search_settings(spec).settings.front();
      CHECK(wanted.driver_ns > 0);
      CHECK(facts.oom_count == wanted.oom_count);
      CHECK(facts.peak_bytes == wanted.peak_bytes);
      CHECK(facts.driver_ns_per_step == wanted.driver_ns_per_step);
      CHECK(facts.calls_per_step == wanted.calls_per_step);
      CHECK(facts.driver_ns == wanted.driver_ns);
    }
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace allocmark
