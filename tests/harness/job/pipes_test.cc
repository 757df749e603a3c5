// Goal: a process is told all that its parent knows, and its parent all that it answers. Method:
// every field of every request and answer gets a value that it does not begin with, goes through
// the text of its pipe and comes back. The compiler names the fields (harness/job/pack.h), so that
// a new one cannot be forgotten there; that of a cell are named by hand, behind a static_assert.
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness/core/run/cell_process.h"       // IWYU pragma: keep (its Packed)
#include "harness/core/search/search_process.h"  // IWYU pragma: keep (its Packed)
#include "harness/job/job.h"
#include "harness/tools/qualify/child.h"  // IWYU pragma: keep (its Packed)
#include "harness/tools/ranks/ranks.h"
#include "harness/tools/run/soak/soak_file.h"
#include "harness/tools/simcheck/simcheck.h"
#include "harness/tools/threads/threads.h"
#include "tests/catch.h"
#include "workloads/trace/source.h"

namespace allocmark {
namespace {

CellKey full_key() {
  return {.workload = "scenario_of_a_test",
          .allocator = "caching",
          .conf = "as:mine",
          .device = "sim:h200",
          .capacity = "1.05x",
          .seed = 7,
          .on_oom = "stop",
          .workload_definition = "train:gpt2-124m,batch=8",
          .workload_files = "0123456789abcdef",
          .conf_definition = "max_split_size_mb:128"};
}

// The value as another process gets it.
template <typename Value>
Value sent(const Value& value) {
  return job::from_text<Value>(job::to_text(value), "a test");
}

LatencySummary latency(double first) {
  return {.count = 9,
          .p50_ns = first,
          .p90_ns = first + 1,
          .p99_ns = first + 2,
          .p999_ns = first + 3,
          .max_ns = first + 4,
          .mean_ns = first + 0.5};
}

}  // namespace

TEST_CASE("a cell is told every field of its specification") {
  const CellSpec spec{.key = full_key(),
                      .pass_count = 7,
                      .width_max = 0.25,
                      .pass_count_max = 11,
                      .verify = VerifyLevel::Whole,
                      .quiet_cpu = true,
                      .shares_device = true,
                      .takes_turns = true,
                      .in_rounds = true,
                      .host_target = {.reference_ns = 1.5, .clock_ns = 2.5},
                      .record = false,
                      .timeout_s = 60,
                      .placements_path = "/a b",
                      .timeline_path = "/c"};
  const CellSpec back = sent(spec);
  CHECK(back.shares_device);
  CHECK(back == spec);
}

TEST_CASE("a search is told every field, and tells every one") {
  const SearchSpec spec{.workload = "fuzz_1",
                        .seed = 2,
                        .capacity = "1.1x",
                        .allocator = "async",
                        .confs = {"", "max_split_size_mb:20"},
                        .finds_least = false,
                        .settle_count_max = 3,
                        .handed = TraceHeader{.name = "job",
                                              .generator = "recorded",
                                              .seed = 5,
                                              .stream_count = 6,
                                              .jobs = {{.workload = "a", .first_stream = 1}},
                                              .pytorch = "2.11.0",
                                              .forbids = {{.key = "k", .why = "w"}}}};
  CHECK(sent(spec) == spec);
  const SearchResult result{.event_count = 1,
                            .allocate_count = 2,
                            .step_count = 3,
                            .stream_count = 4,
                            .needed_bytes = 5,
                            .usable_bytes = 6,
                            .capacity_bytes = 7,
                            .settings = {{.conf = "a",
                                          .oom_count = 8,
                                          .peak_bytes = 9,
                                          .driver_ns_per_step = 1.25,
                                          .calls_per_step = 2.25,
                                          .driver_ns = 3.25,
                                          .pass_count = 10,
                                          .least_bytes = 11,
                                          .unsettled_bytes = 12,
                                          .serves_below_bytes = 13},
                                         {.conf = "none of the optional ones"}},
                            .notes = {"a note"},
                            .trace_hash = 14,
                            .pytorch = "2.11.0",
                            .forbids = {{.key = "backend", .why = "it shares tensors"}}};
  CHECK(sent(result) == result);
}

TEST_CASE("ranks are told every field, and tell every one") {
  const RanksSpec spec{.ranks = {{.number = 3, .workload = "fuzz_1", .capacity = "2GiB"}},
                       .seed = 4,
                       .allocator = "caching",
                       .conf = "max_split_size_mb:20",
                       .on_oom = "skip"};
  CHECK(sent(spec) == spec);
  std::vector<RankRow> rows{{.number = 1,
                             .workload = "w",
                             .capacity_bytes = 2,
                             .requested_bytes_peak = 3,
                             .device_bytes_peak = 4,
                             .request_count = 5,
                             .oom_count = 6,
                             .retry_count = 7,
                             .meeting_count = 8,
                             .end_ns = 9,
                             .wait_ns = 10,
                             .delay_ns = 11,
                             .failure = RankFailure{.event_index = 12,
                                                    .asked_bytes = 13,
                                                    .free_bytes = 14,
                                                    .live_bytes = 15,
                                                    .reserved_bytes = 16,
                                                    .step = "step:1",
                                                    .time_ns = 17},
                             .stall = RankStall{.meeting = "collective:data0",
                                                .number = 18,
                                                .step = "step:2",
                                                .since_ns = 19,
                                                .missing = {20, 21}},
                             .step_live_bytes = {22, 23}}};
  rows.emplace_back().number = 2;  // none of the optional ones
  CHECK(sent(rows) == rows);
}

TEST_CASE("threads are told every field, and tell every one") {
  const ThreadsSpec spec{.workload = "fuzz_1",
                         .seed = 2,
                         .allocator = "caching",
                         .conf = "max_split_size_mb:20",
                         .capacity = "3GiB",
                         .thread_counts = {2, 4},
                         .order = ThreadOrder::Turns,
                         .shares_streams = true,
                         .pass_count = 5,
                         .turn_event_count = 6,
                         .device_count = 7,
                         .table = TableLock::Parts};
  CHECK(sent(spec) == spec);
  const std::vector<ThreadsRow> rows{{.thread_count = 2,
                                      .call_count = 3,
                                      .allocate = latency(10),
                                      .deallocate = latency(20),
                                      .calls_per_s = 4.5,
                                      .slowest_over_fastest = 5.5,
                                      .off_cpu_share = 0.25,
                                      .wait_count = 6,
                                      .preemption_count = 7,
                                      .oom_count = {.low = 8, .high = 9},
                                      .reserved_bytes_end = {.low = 10, .high = 11},
                                      .is_repeatable = true}};
  CHECK(sent(rows) == rows);
}

TEST_CASE("a soak is told every field, and tells every one") {
  const SoakSpec spec{
      .key = full_key(), .verify = VerifyLevel::Off, .seconds = 100, .window_s = 10, .begin_s = 20};
  CHECK(sent(spec) == spec);
  const SoakWindow window{.end_s = 1,
                          .wall_s = 2,
                          .pass_count = 3,
                          .allocate_count = 4,
                          .oom_count = 5,
                          .allocate_p50_ns = 6,
                          .allocate_p99_ns = 7,
                          .deallocate_p50_ns = 8,
                          .deallocate_p99_ns = 9,
                          .held_bytes = 10,
                          .device_bytes = 11,
                          .scattered_share = 0.5,
                          .device_call_count = 12,
                          .process_bytes = 13};
  const SoakEnd end{.status = CellStatus::Failed, .reason = "a rule", .warnings = {"doubtful"}};
  SoakRecord record;
  add_line(to_json_line(spec), "a test", record);
  CHECK(record.spec == spec);
  add_line(to_json_line(window), "a test", record);
  add_line(to_json_line(end), "a test", record);
  CHECK(record.windows == std::vector<SoakWindow>{window});
  CHECK(record.end == end);
}

TEST_CASE("a comparison of devices is told every field of its jobs") {
  const std::vector<simcheck::Job> jobs{
      {.setting = {.allocator = "caching", .conf = "a:1"},
       .program = {.name = "seed 7",
                   .stream_count = 3,
                   .capacity_bytes = 4,
                   .events = {{.id = 5,
                               .size_bytes = 6,
                               .stream = 2,
                               .kind = EventKind::Alloc,
                               .tensor = TensorKind::Gradient}}}}};
  CHECK(sent(jobs) == jobs);
}

TEST_CASE("a test of a GPU is told every field, and tells every one") {
  const qualify::TestSpec spec{.test = "latency",
                               .device = "sim:h200",
                               .gpu = 1,
                               .gpus = {1, 2},
                               .seconds = 3.5,
                               .baseline_path = "/b",
                               .readings = {{"before.x", 4.5}}};
  CHECK(sent(spec) == spec);
  const qualify::TestAnswer answer{.figures = {{.name = "f",
                                                .threshold = "latency.p50_ratio",
                                                .value = 1.5,
                                                .measured_ns = 2.5,
                                                .note = "n",
                                                .optional = true},
                                               {.name = "could not be measured"}},
                                   .failure = "it failed",
                                   .skip = "it was skipped",
                                   .unsafe = true,
                                   .readings = {{"during.y", 3.5}},
                                   .texts = {{"gpu", "name"}},
                                   .virtual_s = 4.5};
  CHECK(sent(answer) == answer);
}

// What a struct may have, and values that JSON has not.
struct Inner {
  std::string text;
  std::optional<double> number;
  friend bool operator==(const Inner&, const Inner&) = default;
};
struct Outer {
  double infinite = 0;
  double unknown = 0;
  std::uint64_t largest = 0;
  std::int32_t negative = 0;
  bool flag = false;
  std::vector<Inner> inner = {};
  std::map<int, std::pair<std::string, Inner>> by_number = {};
};

TEST_CASE("values that JSON has not cross the pipe, too") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Outer back = sent(Outer{.infinite = -kInfinity,
                                .unknown = std::nan(""),
                                .largest = UINT64_MAX,
                                .negative = INT32_MIN,
                                .flag = true,
                                .inner = {{.text = "a\n\"b", .number = kInfinity}, {}},
                                .by_number = {{-3, {"x", {.text = "y", .number = 0.1}}}}});
  CHECK(back.infinite == -kInfinity);
  CHECK(std::isnan(back.unknown));
  CHECK(back.largest == UINT64_MAX);
  CHECK(back.negative == INT32_MIN);
  CHECK(back.flag);
  CHECK(back.inner == std::vector<Inner>{{.text = "a\n\"b", .number = kInfinity}, {}});
  CHECK(back.by_number.at(-3).second.number == 0.1);
}

TEST_CASE("a text that is no message of a job is refused by its name") {
  const auto said = [](const char* text) {
    try {
      (void)job::from_text<Outer>(text, "the search");
    } catch (const InternalError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  for (const char* text : {"", "garbage", "{}", "[]", "[1,2]", "[0,0,-1,0,false,[],[]]x"}) {
    CAPTURE(text);
    CHECK(said(text).find("this is no message of the search") != std::string::npos);
  }
  constexpr Job<Inner, Inner> kInner{.name = "inner", .what = "the search", .run = nullptr};
  std::string_view text = "[\"a\",[]]\n[\"b\",[1.5]]\n[\"cut";
  const std::vector<Inner> answers = take_answers(kInner, text);
  REQUIRE(answers.size() == 2);
  CHECK(answers[1] == Inner{.text = "b", .number = 1.5});
  CHECK(text == "[\"cut");  // until the rest of it is there
}

}  // namespace allocmark
