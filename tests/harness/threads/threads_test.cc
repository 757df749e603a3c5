// Goal: threads share one allocator without harm, exact numbers repeat where the order is fixed,
// and what cannot be is refused. Method: short workloads on the simulated GPU, in this process;
// under ThreadSanitizer every backend that claims to be safe is looked at for races. No time is
// judged.
#include <cstdlib>
#include <string>
#include <vector>

#include "allocators/registry.h"
#include "base/error.h"
#include "harness/tools/threads/threads.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

// Read by the first call to CUDA, which comes later.
const bool three_devices = setenv("SIMCUDA_DEVICES", "3", 1) == 0;

constexpr const char* kWorkload = "churn:events=4000,streams=2,live_bytes=256MiB";

ThreadsSpec spec_of(std::vector<std::uint32_t> counts, ThreadOrder order = ThreadOrder::Free) {
  ThreadsSpec spec;
  spec.workload = kWorkload;
  spec.allocator = "caching";
  spec.thread_counts = std::move(counts);
  spec.order = order;
  spec.pass_count = 2;
  return spec;
}

std::string rejection(const ThreadsSpec& spec) {
  try {
    (void)run_threads(spec);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("in turns everything but times is the same in every pass, and twice") {
  for (const bool shared : {false, true}) {
    ThreadsSpec spec = spec_of({1, 2, 5}, ThreadOrder::Turns);
    spec.shares_streams = shared;
    spec.capacity = "1.1x";
    const std::vector<ThreadsRow> rows = run_threads(spec);
    const std::vector<ThreadsRow> again = run_threads(spec);
    REQUIRE(rows.size() == 3);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      INFO("shared " << shared << ", " << rows[i].thread_count << " threads");
      CHECK(rows[i].is_repeatable);
      CHECK(rows[i].oom_count.low == rows[i].oom_count.high);
      CHECK(rows[i].reserved_bytes_end.low == rows[i].reserved_bytes_end.high);
      CHECK(rows[i].oom_count == again[i].oom_count);
      CHECK(rows[i].reserved_bytes_end == again[i].reserved_bytes_end);
      CHECK(rows[i].call_count == again[i].call_count);
    }
  }
}

TEST_CASE("every thread does the whole work, and every call is timed") {
  const std::vector<ThreadsRow> rows = run_threads(spec_of({1, 3}));
  CHECK(rows[0].call_count > 3000);
  CHECK(rows[1].call_count == 3 * rows[0].call_count);
  CHECK(rows[0].allocate.count + rows[0].deallocate.count == 2 * rows[0].call_count);
  CHECK(rows[1].allocate.count == 3 * rows[0].allocate.count);
  CHECK(rows[1].allocate.p50_ns > 0);
  CHECK(rows[1].calls_per_s > 0);
  CHECK(rows[1].slowest_over_fastest >= 1);
  CHECK(rows[0].is_repeatable);
  CHECK(rows[0].slowest_over_fastest == 1);
}

TEST_CASE("threads together need more memory than one, and a small device says no") {
  ThreadsSpec spec = spec_of({1, 4}, ThreadOrder::Turns);
  const std::vector<ThreadsRow> rows = run_threads(spec);
  CHECK(rows[1].reserved_bytes_end.low > 3 * rows[0].reserved_bytes_end.low);
  CHECK(rows[1].oom_count.high == 0);
  spec.capacity = "300MiB";
  spec.thread_counts = {4};
  CHECK(run_threads(spec).front().oom_count.low > 0);
}

TEST_CASE("every backend that claims to be safe on any thread serves four at a time") {
  for (const BackendEntry& entry : backend_registry()) {
    if (!entry.unavailable_reason().empty() || !entry.argument_keys.empty()) continue;
    ThreadsSpec spec = spec_of({4});
    spec.allocator = entry.name;
    INFO(entry.name);
    if (!entry.capabilities.any_thread) {
      CHECK(has(rejection(spec), "not for several threads"));
      continue;
    }
    const std::vector<ThreadsRow> rows = run_threads(spec);
    CHECK(rows.front().oom_count.high == 0);
    CHECK(rows.front().call_count > 12000);
  }
}

TEST_CASE("what cannot be replayed by threads is refused with the reason") {
  const auto changed = [](auto change) {
    ThreadsSpec spec = spec_of({2});
    change(spec);
    return rejection(spec);
  };
  CHECK(has(changed([](ThreadsSpec& spec) { spec.workload = "churn:evnts=3"; }), "events"));
  CHECK(has(changed([](ThreadsSpec& spec) { spec.allocator = "cachin"; }), "caching"));
  CHECK(has(changed([](ThreadsSpec& spec) { spec.conf = "max_split:128"; }), "max_split"));
  CHECK(has(changed([](ThreadsSpec& spec) { spec.capacity = "24"; }), "24"));
  CHECK(has(changed([](ThreadsSpec& spec) {
              spec.workload = std::string(kWorkload) + " beside " + kWorkload;
            }),
            "several processes"));
}

TEST_CASE("a table of threads says ranges, and how threads take turns") {
  ThreadsSpec spec = spec_of({1, 8}, ThreadOrder::Turns);
  spec.turn_event_count = 7;
  std::vector<ThreadsRow> rows(1);
  rows[0].thread_count = 8;
  rows[0].oom_count = {.low = 1, .high = 3};
  CHECK(has(render_threads(spec, rows), "1 to 3"));
  CHECK(has(render_threads(spec, rows), "in turns of 7 events"));
}

TEST_CASE("threads on devices of their own do not see each other, with a table of blocks or not") {
  ThreadsSpec spec = spec_of({1}, ThreadOrder::Turns);
  spec.capacity = "1.05x";
  const ThreadsRow alone = run_threads(spec).front();
  for (const TableLock table : {TableLock::None, TableLock::One, TableLock::Parts}) {
    spec = spec_of({3, 5}, ThreadOrder::Turns);
    spec.capacity = "1.05x";
    spec.device_count = 3;
    spec.table = table;
    const std::vector<ThreadsRow> rows = run_threads(spec);
    INFO("table " << static_cast<int>(table));
    CHECK(rows[0].is_repeatable);
    CHECK(rows[0].call_count == 3 * alone.call_count);
    CHECK(rows[0].oom_count.low == 3 * alone.oom_count.low);
    CHECK(rows[0].reserved_bytes_end.low == 3 * alone.reserved_bytes_end.low);
    // Two devices have two threads then, with memory for two.
    CHECK(rows[1].is_repeatable);
    CHECK(rows[1].reserved_bytes_end.low > rows[0].reserved_bytes_end.low);
  }
  spec.device_count = 4;
  CHECK(has(rejection(spec), "too few GPUs"));
}

}  // namespace allocmark
